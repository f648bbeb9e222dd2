package cmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flockd/backends"
)

func (a *app) newConfig() *cobra.Command {
	s := newSettings()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config [--key KEY] [flags]",
		Short: "Show each setting of a run and where it comes from",
		Long: "Show each setting that flockd run with the same flags would have, with its value\n" +
			"and where it comes from: a flag, a variable, a line of a configuration file or\n" +
			"the default. --key takes the sections for that key into account.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkValues(cmd.Flags(), a.Args); err != nil {
				return err
			}
			if err := s.resolve(a.Streams); err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(s.origins())
			}
			return a.printOrigins(s.origins())
		},
	}
	s.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().Lookup("json").Annotations = map[string][]string{inGroup: {groupOutput}}
	for _, name := range []string{"shell", "once", "no-wait", "conflict-exit-code"} {
		cmd.Flags().Lookup(name).Hidden = true // of no use here
	}
	completeFlags(cmd)
	return cmd
}

// origin is a setting's value and where it comes from.
type origin struct {
	Value string `json:"value"`
	From  string `json:"from"`
}

// origins are the settings by name, without secrets.
func (s *settings) origins() map[string]origin {
	all := map[string]origin{}
	for name, p := range s.presets() {
		all[name] = p.origin()
	}
	backend := all["backend"]
	if backend.From == fromDefault {
		backend.Value = defaultBackend
	}
	if u, err := backends.ParseURL(backend.Value); err == nil {
		backend.Value = u.String()
	}
	all["backend"] = backend
	if s.noWait.of {
		all["wait"] = origin{"0", s.noWait.from}
	}
	for class, code := range s.exits.code {
		all["exit."+string(class)] = origin{fmt.Sprint(code), s.exits.from[class]}
	}
	return all
}

func (v *value[T]) origin() origin { return origin{v.text, v.from} }

func (a *app) printOrigins(all map[string]origin) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		shown := clean(all[name].Value)
		if shown == "" {
			shown = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, shown, all[name].From)
	}
	return table.Flush()
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
