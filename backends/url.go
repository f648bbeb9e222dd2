package backends

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Hidden stands in a URL where a secret was left out.
const Hidden = "***"

// DefaultPrefix is the ?prefix= of a URL that has none.
const DefaultPrefix = "flockd"

// DefaultTimeout is the ?timeout= of a URL that has none: how long one request
// to the store may last.
const DefaultTimeout = 5 * time.Second

// URL is a store's address. Unlike net/url's it bears a list of hosts, and its
// parser never repeats the text that it can't read, which may hold a password.
type URL struct {
	Scheme   string
	User     string
	Password string // decoded; empty: none
	Host     string // the whole authority after '@': one host or a list
	Path     string // decoded, with its leading slash after an authority
	Query    url.Values
	rooted   bool // "//" followed the scheme
}

// ParseURL parses SCHEME:[//[USER[:PASSWORD]@]HOSTS][PATH][?QUERY]. It refuses what is
// more likely the rest of a line than a part of a URL: white space at an end,
// control characters, a fragment.
func ParseURL(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/@?") {
		return nil, BadURL("a backend is a URL, SCHEME:…, for example sqlite:///srv/locks/flockd.db")
	}
	if strings.ContainsFunc(raw, unicode.IsControl) || strings.TrimSpace(raw) != raw || strings.Contains(raw, "#") {
		return nil, BadURL("the %s: URL has white space at an end, a control character or a #, which a URL writes as %%23", scheme)
	}
	u := &URL{Scheme: scheme}
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if u.Query, err = url.ParseQuery(query); err != nil {
		return nil, BadURL("the options of the %s: URL can't be read", scheme)
	}
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		u.rooted = true
		i := strings.IndexByte(after+"/", '/')
		rest = after[i:]
		if err := u.parseAuthority(after[:i], rest, query); err != nil {
			return nil, err
		}
	} else if !strings.HasPrefix(rest, "/") && strings.Contains(rest, "@") {
		return nil, BadURL("the %s: URL lacks its //", scheme) // and what it has may be a password
	}
	if u.Path, err = url.PathUnescape(rest); err != nil {
		return nil, BadURL("the path of the %s: URL has a wrong %% escape", scheme)
	}
	return u, nil
}

// parseAuthority refuses what looks as if it had been cut off in the middle of a
// password: the rest would be shown as a path or an option.
func (u *URL) parseAuthority(authority, path, query string) error {
	i := strings.LastIndexByte(authority, '@')
	u.Host = authority[i+1:]
	cut := strings.Contains(path, "@") || path == "" && strings.Contains(query, "@")
	if strings.ContainsAny(u.Host, " \t") {
		return BadURL("the hosts of the %s: URL have white space between them", u.Scheme)
	}
	if authority != "" && cut || !portsAreNumbers(u.Host) {
		return BadURL("the hosts of the %s: URL can't be read; in a password, / is written %%2F, ? %%3F and @ %%40", u.Scheme)
	}
	if i < 0 {
		return nil
	}
	user, password, _ := strings.Cut(authority[:i], ":")
	var err1, err2 error
	u.User, err1 = url.PathUnescape(user)
	u.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return BadURL("the user or password of the %s: URL has a wrong %% escape", u.Scheme)
	}
	return nil
}

func portsAreNumbers(hosts string) bool {
	for host := range strings.SplitSeq(hosts, ",") {
		_, port, _ := strings.Cut(host[strings.LastIndexByte(host, ']')+1:], ":")
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
	}
	return true
}

// secretOption reports whether an option of this name holds a secret.
func secretOption(name string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{"password", "passwd", "pwd", "pass", "secret", "token"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// Secret reports whether the URL holds a secret.
func (u *URL) Secret() bool {
	for name := range u.Query {
		if secretOption(name) {
			return true
		}
	}
	return u.Password != ""
}

// HasHidden reports whether the URL has lost a secret: it can't be used.
func (u *URL) HasHidden() bool {
	for _, values := range u.Query {
		for _, v := range values {
			if v == Hidden {
				return true
			}
		}
	}
	return u.Password == Hidden
}

// String is the URL with Hidden for each secret.
func (u *URL) String() string { return u.hidden().Full() }

// hidden is the URL without its secrets.
func (u *URL) hidden() *URL {
	hidden := *u
	hidden.Query = maps.Clone(u.Query)
	for name := range u.Query {
		if secretOption(name) {
			hidden.Query[name] = []string{Hidden}
		}
	}
	if u.Password != "" {
		hidden.Password = Hidden
	}
	return &hidden
}

// Full is the URL with its secrets.
func (u *URL) Full() string {
	var b strings.Builder
	b.WriteString(u.Scheme + ":")
	if u.rooted {
		b.WriteString("//")
		if u.User != "" || u.Password != "" {
			b.WriteString(strings.ReplaceAll(url.PathEscape(u.User), ":", "%3A"))
			if u.Password != "" {
				b.WriteString(":" + strings.ReplaceAll(url.PathEscape(u.Password), "%2A", "*"))
			}
			b.WriteByte('@')
		}
		b.WriteString(u.Host)
	}
	path := (&url.URL{Path: u.Path}).EscapedPath()
	if u.Host != "" || !strings.HasPrefix(path, "/") {
		path = strings.ReplaceAll(path, "@", "%40") // or ParseURL takes it for the end of a password
	}
	b.WriteString(path)
	if len(u.Query) > 0 {
		b.WriteString("?" + strings.NewReplacer("%2A", "*", "%2F", "/").Replace(u.Query.Encode()))
	}
	return b.String()
}

// ReadPassword is the URL's password, or the content of ?password-file= without the
// line break at its end; empty: none.
func (u *URL) ReadPassword() (string, error) {
	file := u.Query.Get("password-file")
	switch {
	case file == "":
		return u.Password, nil
	case u.Password != "":
		return "", BadURL("the %s: URL has a password and a ?password-file=", u.Scheme)
	}
	text, err := os.ReadFile(file)
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the path is named already
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case err != nil:
		return "", BadURL("?password-file=%s: %v", file, err)
	case password == "":
		return "", BadURL("?password-file=%s is empty", file)
	}
	return password, nil
}

// fileOptions are the options that name files.
var fileOptions = []string{"password-file", "cacert", "cert", "key", "sslrootcert", "sslcert", "sslkey", "passfile"}

// Absolute is the URL in a form that holds in any folder: files that its options name
// are named by their absolute paths.
func (u *URL) Absolute() *URL {
	absolute := *u
	absolute.Query = maps.Clone(u.Query)
	for _, option := range fileOptions {
		if file := u.Query.Get(option); file != "" {
			if path, err := filepath.Abs(file); err == nil {
				absolute.Query.Set(option, path)
			}
		}
	}
	return &absolute
}

// Prefix is ?prefix=.
func (u *URL) Prefix() string { return cmp.Or(u.Query.Get("prefix"), DefaultPrefix) }

// Timeout is ?timeout=, a Go duration above zero or a number of seconds.
func (u *URL) Timeout() (time.Duration, error) {
	text := u.Query.Get("timeout")
	if text == "" {
		return DefaultTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d <= 0 {
		return 0, BadURL("?timeout=%s is not a duration such as 5s", text)
	}
	return d, nil
}

// CheckOptions refuses an option that is none of known, nor prefix or timeout,
// and one that is given twice.
func (u *URL) CheckOptions(known ...string) error {
	known = append(known, "prefix", "timeout")
	for name, values := range u.Query {
		found := slices.Contains(known, name)
		switch {
		case !found:
			return BadURL("the %s: URL knows no option %q; it knows %s", u.Scheme, name, strings.Join(known, ", "))
		case values[0] == "":
			return BadURL("option %q of the %s: URL is empty: a variable that is missing here?", name, u.Scheme)
		case len(values) > 1:
			return BadURL("option %q of the %s: URL is given twice", name, u.Scheme)
		}
	}
	return nil
}
