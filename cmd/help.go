package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// width is how wide the help is, in columns.
const width = 80

// exitCodes are the exit codes of flockd run, for the help and the man page.
var exitCodes = [][2]string{
	{"N", "the command's own exit code"},
	{"128+N", "signal N ended the command, or came while flockd stood in line"},
	{"75", "skipped: the key is taken or cooling"},
	{"0", "done: with --once, this run has succeeded before; nothing ran"},
	{"79", "lost: the lease was lost; or a --once success couldn't be recorded"},
	{"69", "unavailable: the store could not be reached or refused; nothing ran"},
	{"124", "max-runtime: the command was stopped by --max-runtime"},
	{"126, 127", "the command can't be executed, was not found"},
	{"64", "wrong flags or configuration"},
	{"70", "a fault in flockd"},
}

func (a *app) newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(root, args)
			}
			_, err = fmt.Fprint(a.Stdout, helpText(cmd))
			return err
		},
	}
}

// helpText is the help of a command.
func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n", text)
	if !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	} else {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.CommandPath())
		writeCommands(&b, cmd)
	}
	writeFlags(&b, cmd)
	if codes := exitTables[pageName(cmd)]; len(codes) > 0 {
		b.WriteString("\nExit codes:\n")
		for _, c := range codes {
			fmt.Fprintf(&b, "  %-9s %s\n", c[0], c[1])
		}
	}
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n" + indented(cmd.Example) + "\n")
	}
	fmt.Fprintf(&b, "\n%s\n", seeAlso(cmd))
	return b.String()
}

func seeAlso(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND --help says more about a command, flockd man prints the manual."
	}
	return "The manual: flockd man " + pageName(cmd) + " | man -l -"
}

// pageName is the name of a command's man page: flockd-run.
func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	b.WriteString("\nCommands:\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(b, "  %-12s %s\n", c.Name(), c.Short)
		}
	}
}

func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	groups := flagsByGroup(cmd)
	for _, group := range flagGroups {
		if len(groups[group]) == 0 {
			continue
		}
		title := group
		if len(groups) == 1 {
			title = "Flags"
		}
		fmt.Fprintf(b, "\n%s:\n", title)
		for _, flag := range groups[group] {
			writeFlag(b, flag)
		}
	}
}

// flagsByGroup are the flags that are shown, each group in the order in which
// they were made.
func flagsByGroup(cmd *cobra.Command) map[string][]*pflag.Flag {
	cmd.InitDefaultHelpFlag()
	groups := map[string][]*pflag.Flag{}
	set := cmd.Flags()
	sorted := set.SortFlags
	set.SortFlags = false
	defer func() { set.SortFlags = sorted }()
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		group := groupOther
		if in := flag.Annotations[inGroup]; len(in) > 0 {
			group = in[0]
		}
		groups[group] = append(groups[group], flag)
	})
	return groups
}

func writeFlag(b *strings.Builder, flag *pflag.Flag) {
	const column = 30
	names, usage := flagNames(flag), flagUsage(flag)
	lines := wrapped(usage, width-column)
	if len(names) > column-2 {
		fmt.Fprintf(b, "%s\n", names)
		names = ""
	}
	for _, line := range lines {
		fmt.Fprintf(b, "%-*s%s\n", column, names, line)
		names = ""
	}
}

// flagNames is "  -k, --key KEY".
func flagNames(flag *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(flag)
	if flag.NoOptDefVal != "" {
		value = ""
	}
	short := "    "
	if flag.Shorthand != "" {
		short = "-" + flag.Shorthand + ", "
	}
	if _, ok := flag.Annotations[shortOnly]; ok {
		return strings.TrimRight("  -"+flag.Shorthand+" "+value, " ")
	}
	return strings.TrimRight("  "+short+"--"+flag.Name+" "+value, " ")
}

// flagUsage is what the flag does, and its default.
func flagUsage(flag *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(flag)
	usage = strings.TrimSuffix(usage, ".")
	def := flag.DefValue
	if special := flag.Annotations[byDefault]; len(special) > 0 {
		def = special[0]
	}
	if def == "" || flag.NoOptDefVal != "" {
		return usage
	}
	return usage + " (default: " + def + ")"
}

// wrapped breaks text into lines of at most columns, at spaces.
func wrapped(text string, columns int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len([]rune(*last))+1+len([]rune(word)) <= columns:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

func indented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(slices.Clip(lines), "\n")
}
