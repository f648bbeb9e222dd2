package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"

	"flockd/backends"
)

// configAtMost bounds a configuration file, in bytes.
const configAtMost = 1 << 20

// etcConfig is the configuration of all users.
const etcConfig = "/etc/flockd/config.toml"

// configPaths are the files to read, strongest first, and whether they must be
// there. named is --config.
func configPaths(named string, streams Streams) (paths []string, must bool, err error) {
	if named != "" {
		return []string{named}, true, nil
	}
	if file, ok := streams.variable("FLOCKD_CONFIG"); ok {
		if file == "" {
			return nil, false, usage("unset it to read the usual files; /dev/null reads none", "FLOCKD_CONFIG is set but empty")
		}
		return []string{file}, true, nil
	}
	if user := userConfig(streams); user != "" {
		paths = append(paths, user)
	}
	return append(paths, etcConfig), false, nil
}

// userConfig is the user's own configuration; empty: there is none, as for root,
// who has /etc.
func userConfig(streams Streams) string {
	if streams.UID == 0 {
		return ""
	}
	base := streams.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := streams.getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "flockd", "config.toml")
}

// configFile is a file's settings.
type configFile struct {
	path string
	text string
	top  map[string]any
	keys []keySection // strongest first
}

// keySection is the settings for the keys that match a pattern.
type keySection struct {
	pattern string
	values  map[string]any
}

// readConfig reads a configuration file. Nil: there is none, and it need not be there.
func readConfig(path string, must bool, uid int) (*configFile, error) {
	if path == os.DevNull {
		return nil, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil
	}
	if err != nil {
		return nil, usage("", "configuration: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, usage("", "configuration: %w", err)
	}
	if err := checkTrust(path, info, uid); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, configAtMost+1))
	if err != nil {
		return nil, usage("", "configuration: %w", err)
	}
	if len(text) > configAtMost {
		return nil, usage("", "%s is larger than %d bytes", path, configAtMost)
	}
	c, err := parseConfig(path, string(text))
	if err != nil {
		return nil, err
	}
	if secret := c.secret(); secret != "" && info.Mode()&0o004 != 0 {
		return nil, usage("chmod o-r "+path+", or keep the secret in a file for ?password-file=", "%s holds a secret and all may read it", secret)
	}
	return c, nil
}

// checkTrust refuses a file that somebody else may have written.
func checkTrust(path string, info fs.FileInfo, uid int) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !info.Mode().IsRegular():
		return usage("", "the configuration %s is no regular file", path)
	case owner != 0 && owner != uid:
		return usage("", "the configuration %s belongs to another user (%d): its settings aren't trusted", path, owner)
	case info.Mode()&0o022 != 0:
		return usage("chmod go-w "+path, "others may write the configuration %s (mode %#o): its settings aren't trusted", path, info.Mode().Perm())
	}
	return nil
}

func parseConfig(path, text string) (*configFile, error) {
	c := &configFile{path: path, text: text}
	meta, err := toml.Decode(text, &c.top)
	var wrong toml.ParseError
	if errors.As(err, &wrong) {
		return nil, usage("", "%s:%d: %s", path, wrong.Position.Line, wrong.Message)
	}
	if err != nil {
		return nil, usage("", "%s: %w", path, err)
	}
	sections, ok := c.top["key"].(map[string]any)
	if _, set := c.top["key"]; set && !ok {
		return nil, usage(`[key."nightly-*"] begins the settings of the keys that match`, "%s: key is a section", c.at("", "key"))
	}
	delete(c.top, "key")
	for _, k := range meta.Keys() {
		if len(k) != 2 || k[0] != "key" {
			continue
		}
		values, ok := sections[k[1]].(map[string]any)
		if !ok {
			return nil, usage("", "%s: key.%q is a section", c.at("", k[1]), k[1])
		}
		c.keys = append(c.keys, keySection{k[1], values})
	}
	slices.SortStableFunc(c.keys, func(a, b keySection) int { return weight(b.pattern) - weight(a.pattern) })
	return c, nil
}

// weight orders patterns: one without wildcards before all others, then the one
// with more characters that aren't wildcards.
func weight(pattern string) int {
	plain := len(pattern) - strings.Count(pattern, "*") - strings.Count(pattern, "?")
	if plain == len(pattern) {
		return backends.MaxKey + plain + 1
	}
	return plain
}

// matches reports whether key is one of those that pattern means: * stands for
// any characters, ? for one, and all others for themselves.
func matches(pattern, key string) bool {
	p, k := []rune(pattern), []rune(key)
	star, mark := -1, 0 // the last *, and where what it stands for ends
	i, j := 0, 0
	for j < len(k) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == k[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(string(p[i:]), "*") == ""
}

// apply gives the settings of the file to s: first the sections that match the
// key, then the rest. All are checked, also those that don't count.
func (c *configFile) apply(s *settings) error {
	for _, section := range c.keys {
		to := s
		if !matches(section.pattern, s.key.of) {
			to = newSettings()
		}
		if err := c.applyTable(to, section.pattern, section.values); err != nil {
			return err
		}
	}
	return c.applyTable(s, "", c.top)
}

func (c *configFile) applyTable(s *settings, section string, table map[string]any) error {
	known := s.presets()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at := c.at(section, name)
		if name == "exit" {
			if err := applyExits(s, table[name], at); err != nil {
				return err
			}
			continue
		}
		to := known[name]
		if to == nil {
			return usage("the settings are "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")+" and exit", "%s: there is no setting %q", at, name)
		}
		text, ok := scalar(table[name])
		if !ok {
			return usage("", "%s: %s takes one value", at, name)
		}
		if err := to.preset(text, at); err != nil {
			return badPreset(at, name, text, err)
		}
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
func applyExits(s *settings, v any, at string) error {
	var codes []string
	switch v := v.(type) {
	case string:
		codes = []string{v}
	case []any:
		for _, code := range v {
			text, _ := scalar(code)
			codes = append(codes, text)
		}
	case map[string]any:
		for _, class := range slices.Sorted(maps.Keys(v)) {
			text, _ := scalar(v[class])
			codes = append(codes, class+"="+text)
		}
	default:
		return usage(`exit.skipped = 0, or exit = ["skipped=0"]`, "%s: exit takes classes with codes", at)
	}
	for _, code := range codes {
		if err := s.exits.preset(code, at); err != nil {
			return badPreset(at, "exit", code, err)
		}
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
	tables := []keySection{{"", c.top}}
	for _, t := range append(tables, c.keys...) {
		text, _ := t.values["backend"].(string)
		if u, err := backends.ParseURL(text); err == nil && u.Secret() {
			return c.at(t.pattern, "backend")
		}
	}
	return ""
}

// at is FILE:LINE of a setting. The parser doesn't tell, so we look ourselves; a
// name that isn't found is in FILE.
func (c *configFile) at(section, name string) string {
	current := ""
	for i, line := range strings.Split(c.text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			header := strings.Trim(strings.TrimSpace(strings.TrimLeft(line, "[")), "] \t")
			current = sectionOf(header)
			line = header
		}
		if (current == section || line == name) && isSetting(line, name) {
			return fmt.Sprintf("%s:%d", c.path, i+1)
		}
	}
	return c.path
}

// sectionOf is the pattern in a header key."PATTERN".
func sectionOf(header string) string {
	pattern, ok := strings.CutPrefix(header, "key.")
	if !ok {
		return ""
	}
	if unquoted, err := strconv.Unquote(pattern); err == nil {
		return unquoted
	}
	return strings.Trim(pattern, `'" `)
}

// isSetting reports whether a line begins with name, quoted or not, as a whole.
func isSetting(line, name string) bool {
	for _, form := range []string{name, strconv.Quote(name), "'" + name + "'"} {
		if rest, ok := strings.CutPrefix(line, form); ok {
			rest = strings.TrimLeft(rest, " \t")
			return rest == "" || strings.ContainsAny(rest[:1], "=.]")
		}
	}
	return false
}
