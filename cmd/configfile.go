package cmd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/BurntSushi/toml"
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
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe isn't waited for, but refused
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil
	}
	if errors.Is(err, fs.ErrPermission) && !must && path != etcConfig {
		return nil, usage("is HOME another user's? Set HOME, or FLOCKD_CONFIG=/dev/null to read none", "configuration: %w", err)
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
		return nil, usage("chmod o-r "+path, "%s holds a secret and all may read it", secret)
	}
	return c, nil
}

// checkTrust refuses a file that somebody else may have written.
func checkTrust(path string, info fs.FileInfo, uid int) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !info.Mode().IsRegular():
		return usage("", "the configuration %s is not a regular file", path)
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
		return nil, usage(`[key."nightly-*"] begins the settings of the keys that match`, "%s: key is a section", c.at("key"))
	}
	delete(c.top, "key")
	seen := map[string]bool{}
	for _, k := range meta.Keys() {
		if len(k) < 2 || k[0] != "key" || seen[k[1]] {
			continue // a table that only its settings name has no key of its own
		}
		k, seen[k[1]] = k[:2], true
		values, ok := sections[k[1]].(map[string]any)
		if !ok {
			return nil, usage("", "%s: key.%q is a section", c.at(k...), k[1])
		}
		c.keys = append(c.keys, keySection{k[1], values})
	}
	slices.SortStableFunc(c.keys, func(a, b keySection) int { return weight(b.pattern) - weight(a.pattern) })
	return c, nil
}
