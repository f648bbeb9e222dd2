package cmd

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write man/, completions/ and testdata/ anew")

// TestGenerated holds the man pages and completions to the commands.
func TestGenerated(t *testing.T) {
	files := generate(t)
	for name, text := range files {
		path := filepath.Join("..", name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil || string(have) != text {
			t.Errorf("%s is out of date (%v): go test ./cmd -run TestGenerated -update", name, err)
		}
	}
	for _, folder := range []string{"man", "completions"} {
		there, _ := filepath.Glob("../" + folder + "/*")
		for _, path := range there {
			if name, _ := filepath.Rel("..", path); files[name] == "" {
				t.Errorf("nothing makes %s", name)
			}
		}
	}
}

func generate(t *testing.T) map[string]string {
	root := (&app{}).newRoot()
	root.InitDefaultHelpCmd()
	files := map[string]string{"man/flockd.1": commandPage(root), "man/flockd.conf.5": configPage()}
	for _, cmd := range commandsOf(root) {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			if _, ok := manuals[pageName(cmd)]; !ok {
				t.Errorf("manuals lacks %s", pageName(cmd))
			}
			files["man/"+pageName(cmd)+".1"] = commandPage(cmd)
		}
	}
	files["completions/flockd.bash"] = script(t, func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) })
	files["completions/_flockd"] = script(t, func(b *bytes.Buffer) error { return root.GenZshCompletion(b) })
	files["completions/flockd.fish"] = script(t, func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) })
	return files
}

// commandsOf are the commands below parent, at any depth.
func commandsOf(parent *cobra.Command) (cmds []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		cmds = append(append(cmds, cmd), commandsOf(cmd)...)
	}
	return cmds
}

func script(t *testing.T, write func(*bytes.Buffer) error) string {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEveryFlagIsExplained finds flags without a group or a word.
func TestEveryFlagIsExplained(t *testing.T) {
	root := (&app{}).newRoot()
	for _, cmd := range append(commandsOf(root), root) {
		for group, flags := range flagsByGroup(cmd) {
			for _, f := range flags {
				if f.Usage == "" || !slices.Contains(flagGroups, group) {
					t.Errorf("%s --%s: group %q, usage %q", cmd.CommandPath(), f.Name, group, f.Usage)
				}
			}
		}
	}
}
