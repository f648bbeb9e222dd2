package cmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionFiles are the embedded scripts, by shell. They ask flockd itself.
var completionFiles = map[string]string{
	"bash": "completions/flockd.bash",
	"zsh":  "completions/_flockd",
	"fish": "completions/flockd.fish",
}

func (a *app) newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: "Print the completion script of a shell. Load it with\n\n" +
			"  bash:  source <(flockd completion bash)\n" +
			"  zsh:   flockd completion zsh > \"${fpath[1]}/_flockd\"\n" +
			"  fish:  flockd completion fish | source",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || completionFiles[args[0]] == "" {
				return usage("", "expected one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.printFile(completionFiles[args[0]]) },
	}
}

// flagWords are the words that flags take, for completion.
var flagWords = map[string][]string{
	"on-lost":        {"kill", "warn"},
	"on-unavailable": {"fail", "skip", "run"},
	"leftovers":      {"leave", "wait", "kill"},
	"log-format":     {"text", "json"},
	"warn-signal":    {"URG", "USR1", "USR2", "HUP", "INT", "TERM", "QUIT", "WINCH", "CONT"},
	"exit":           exitWords(),
	"wait":           {"forever", "30s", "10m", "1h"},
	"ttl":            {"30s", "5m", "1h"},
	"max-runtime":    {"10m", "1h", "1d"},
	"grace":          {"5s", "10s", "30s"},
	"min-hold":       {"30s", "5m", "1h"},
	"once-per":       {"hour", "day", "week", "month", "15m"},
	"once-lead":      {"30s", "1m", "5m"},
	"once-keep":      {"7d", "30d", "365d"},
	"restart":        {"always", "on-failure", "never"},
	"hook-limit":     {"5s", "10s", "1m"},
}

// freeFlags take what no one can guess.
var freeFlags = []string{"key", "once", "tz", "slots", "max-waiters", "prefix", "grant-to", "note", "shell", "on-elected", "on-deposed", "conflict-exit-code", "token", "to", "size"}

func exitWords() []string {
	var words []string
	for _, class := range exitClasses {
		words = append(words, string(class)+"=")
	}
	return words
}

// completeFlags says what completes the values of the flags. All others take a file.
func completeFlags(cmd *cobra.Command) {
	words := func(flag string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			if flag == "exit" {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
			return flagWords[flag], directive
		}
	}
	for flag := range flagWords {
		cmd.RegisterFlagCompletionFunc(flag, words(flag))
	}
	for _, flag := range freeFlags {
		cmd.RegisterFlagCompletionFunc(flag, words(flag))
	}
	cmd.RegisterFlagCompletionFunc("backend", completeBackend)
}

// completeCommand completes the command to run with those in PATH, and its
// arguments with files.
func (a *app) completeCommand(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || strings.Contains(begun, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var found []string
	for _, folder := range filepath.SplitList(a.getenv("PATH")) {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), begun) && runnable(filepath.Join(folder, e.Name())) == nil {
				found = append(found, e.Name())
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), cobra.ShellCompDirectiveDefault
}
