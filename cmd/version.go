package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"flockd/backends/all"
)

// version is set by the linker for a release; empty: what the build knows.
var version string

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version and the stores of this build",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion()
		},
	}
}

func (a *app) printVersion() error {
	_, err := fmt.Fprintf(a.Stdout, "flockd %s\n%s %s/%s\nstores: %s\n",
		versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(all.Schemes(), ", "))
	return err
}

func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(text, s.Value[:min(12, len(s.Value))]) {
			text += " " + s.Value
		}
	}
	return text
}
