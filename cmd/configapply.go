package cmd

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"flockd/backends"
)

// apply gives the settings of the file to s: first the sections that match the
// key, then the rest. All are checked, also those that don't count.
func (c *configFile) apply(s *settings) error {
	for _, section := range c.keys {
		to := s
		if !matches(section.pattern, s.key.of) {
			to = newSettings()
		}
		if err := c.applyTable(to, section.values, "key", section.pattern); err != nil {
			return err
		}
	}
	return c.applyTable(s, c.top)
}

// applyTable takes the settings of the table that is in section of the file.
func (c *configFile) applyTable(s *settings, table map[string]any, section ...string) error {
	known, overruled := s.presets(), s.overruled()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := append(slices.Clone(section), name)
		var err error
		switch {
		case name == "exit":
			err = c.applyExits(s, table[name], path)
		case known[name] == nil:
			err = usage("the settings are "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")+" and exit",
				"%s: there is no setting %q", c.at(path...), name)
		default:
			to := known[name]
			if overruled[name] {
				to = newSettings().presets()[name] // it is checked all the same
			}
			err = applyOne(to, name, table[name], c.at(path...))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func applyOne(to preset, name string, v any, at string) error {
	text, ok := scalar(v)
	if !ok {
		return usage("", "%s: %s takes one value", at, name)
	}
	if err := to.preset(text, at); err != nil {
		return badPreset(at, name, text, err)
	}
	return nil
}

func badPreset(at, name, text string, err error) error {
	if name == "backend" {
		return badBackend(at+": backend", err)
	}
	return usage("", "%s: %s %s: %w", at, name, shortened(text), err)
}

// applyExits takes exit = ["skipped=0"] as well as exit.skipped = 0.
func (c *configFile) applyExits(s *settings, v any, path []string) error {
	at := c.at(path...)
	switch v := v.(type) {
	case string:
		return applyExit(s, v, at)
	case []any:
		for _, code := range v {
			text, _ := scalar(code)
			if err := applyExit(s, text, at); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, class := range slices.Sorted(maps.Keys(v)) {
			text, _ := scalar(v[class])
			if err := applyExit(s, class+"="+text, c.at(append(slices.Clone(path), class)...)); err != nil {
				return err
			}
		}
		return nil
	}
	return usage(`exit.skipped = 0, or exit = ["skipped=0"]`, "%s: exit takes classes with codes", at)
}

func applyExit(s *settings, text, at string) error {
	if err := s.exits.preset(text, at); err != nil {
		return badPreset(at, "exit", text, err)
	}
	return nil
}

// scalar is a single value as a flag would be given it.
func scalar(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// secret is where the file holds a secret; empty: nowhere.
func (c *configFile) secret() string {
	if holdsSecret(c.top) {
		return c.at("backend")
	}
	for _, section := range c.keys {
		if holdsSecret(section.values) {
			return c.at("key", section.pattern, "backend")
		}
	}
	return ""
}

func holdsSecret(table map[string]any) bool {
	text, _ := table["backend"].(string)
	u, err := backends.ParseURL(text)
	return err == nil && u.Secret()
}
