package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkValues refuses a flag of which the user gave two values, and one that took
// the flag behind it for its value, as it does where a variable is missing.
func checkValues(set *pflag.FlagSet, line []string) (err error) {
	set.Visit(func(flag *pflag.Flag) {
		v, ok := flag.Value.(interface{ twice() string })
		switch {
		case err != nil:
		case ok && v.twice() != "":
			err = usage("", "%s %s", flagName(flag), v.twice())
		case tookFlag(set, flag.Value.String()) && !slices.Contains(line, "--"+flag.Name+"="+flag.Value.String()):
			err = looksLikeFlag(flag, flag.Value.String(), "--"+flag.Name+"="+flag.Value.String()+" if that is meant")
		case oneDash(flag, flag.Value.String()) && slices.Contains(line, "-"+flag.Name):
			err = readAs(flag)
		}
	})
	return err
}

func looksLikeFlag(flag *pflag.Flag, value, hint string) error {
	return usage(hint, "%s needs a value, and %s looks like a flag: a variable that is missing here?", flagName(flag), shortened(value))
}

// oneDash reports whether a value is what is left of a long flag with one dash: -wait 5
// is read as -w ait.
func oneDash(flag *pflag.Flag, value string) bool {
	return flag.Shorthand != "" && flag.Shorthand+value == flag.Name
}

func readAs(flag *pflag.Flag) error {
	rest := strings.TrimPrefix(flag.Name, flag.Shorthand)
	return usage("did you mean --"+flag.Name+"?", "-%s is read as -%s %s", flag.Name, flag.Shorthand, rest)
}

// tookFlag reports whether a value is what comes behind a value that is missing: one
// of our flags, or the --.
func tookFlag(set *pflag.FlagSet, value string) bool {
	if long, ok := strings.CutPrefix(value, "--"); ok {
		name, _, _ := strings.Cut(long, "=")
		return long == "" || set.Lookup(name) != nil
	}
	short, ok := strings.CutPrefix(value, "-")
	if !ok || len(short) != 1 {
		return false
	}
	flag := set.ShorthandLookup(short)
	return flag != nil && !flag.Hidden
}

// flagError is the usage error for what pflag found. It never repeats a value
// that may hold a secret.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	see := "see " + cmd.CommandPath() + " --help"
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return noCommand(cmd, args) // whose flags the others are
	}
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown, see)
	case errors.As(err, &missing):
		return usage(see, "%s needs a value", flagName(missing.GetFlag()))
	case errors.As(err, &invalid):
		return invalidFlag(cmd.Flags(), invalid)
	case errors.As(err, &syntax):
		return usage(see, "a flag is badly written")
	}
	return usage(see, "%w", err)
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError, see string) error {
	name := err.GetSpecifiedName()
	if name == "timeout" && cmd.Flags().Lookup("max-runtime") != nil {
		return usage("--wait limits the time in line, --max-runtime the command's", "there is no --timeout: --wait or --max-runtime?")
	}
	if (name == "key" || name == "k") && (strings.Contains(cmd.Use, "KEY") || strings.Contains(cmd.Use, "PREFIX")) {
		return usage(cmd.UseLine(), "there is no --key: what it names is an argument here")
	}
	if !cmd.HasParent() { // the flags of a run come after it
		see = "flockd run --key KEY [flags] -- COMMAND [ARG...]"
	}
	if short := err.GetSpecifiedShortnames(); short != "" {
		if cmd.Flags().Lookup(short) != nil {
			see = "did you mean --" + short + "?"
		}
		return usage(see, "there is no flag -%s", name)
	}
	return usage(see, "there is no flag --%s", name)
}

func invalidFlag(set *pflag.FlagSet, err *pflag.InvalidValueError) error {
	flag, cause := err.GetFlag(), errors.Unwrap(err)
	switch value := err.GetValue(); {
	case oneDash(flag, value):
		return readAs(flag)
	case tookFlag(set, value):
		return looksLikeFlag(flag, value, "")
	case flag.Name == "backend":
		return badBackend("--backend", cause)
	case flag.Name == "restart" && value == "no":
		return usage("--restart never", "%s %s: %w", flagName(flag), value, cause)
	case flag.Name == "key":
		return usage("", "%s: %w", flagName(flag), cause)
	}
	return usage("", "%s %s: %w", flagName(flag), shortened(err.GetValue()), cause)
}

func flagName(flag *pflag.Flag) string {
	if _, ok := flag.Annotations[shortOnly]; ok {
		return "-" + flag.Shorthand
	}
	return "--" + flag.Name
}

// shortened is text for a message: what is long or empty can be told.
func shortened(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		text = string(r[:most/2]) + "…" + string(r[len(r)-most/2:])
	}
	if text == "" || strings.ContainsAny(text, " \t\n") {
		return fmt.Sprintf("%q", text)
	}
	return text
}
