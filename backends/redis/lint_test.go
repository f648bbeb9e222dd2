package redis

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	call    = regexp.MustCompile(`redis\s*\.\s*p?call`)
	literal = regexp.MustCompile(`^redis\.call\((?:'TIME'\)|'[A-Z]+', KEYS\[[1-9]\][,)])`)
	comment = regexp.MustCompile(`--.*`)
)

// lint lists the calls in a script whose key isn't one of KEYS by its number. A proxy
// that routes each key by what it is told couldn't know another.
func lint(lua string) (bad []string) {
	for _, line := range strings.Split(lua, "\n") {
		line = comment.ReplaceAllString(line, "")
		for _, at := range call.FindAllStringIndex(line, -1) {
			if !literal.MatchString(line[at[0]:]) {
				bad = append(bad, strings.TrimSpace(line[at[0]:]))
			}
		}
		if rest := call.ReplaceAllString(line, ""); strings.Contains(rest, "redis.") || strings.Contains(rest, "redis[") {
			bad = append(bad, strings.TrimSpace(line))
		}
	}
	return bad
}

func TestEachKeyIsNamed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	calls := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		calls += len(call.FindAllString(string(text), -1))
		for _, bad := range lint(string(text)) {
			t.Errorf("%s: %s", file, bad)
		}
	}
	if calls < 20 {
		t.Errorf("%d calls seen in %q", calls, files)
	}
}

func TestLintFindsComputedKeys(t *testing.T) {
	t.Parallel()
	for _, lua := range []string{
		"redis.call('GET', key)", "redis.call('GET', KEYS[i])", "redis.call('GET', KEYS[1] .. ':x')", `redis.call("GET", ARGV[1])`,
		"x = redis.call('DEL', 'flockd:' .. id)", "redis.pcall('GET', key)", "redis.call(cmd, KEYS[1])", "redis.call('GET', KEYS[10])",
		"local r = redis.call", "redis['call']('GET', key)", "redis.call('FLUSHALL')",
		"redis . call('GET', key)", "redis.call('GET', KEYS[1]) redis.call('GET', key)",
	} {
		if lint(lua) == nil {
			t.Errorf("not seen: %s", lua)
		}
	}
	for _, lua := range []string{"redis.call('GET', KEYS[1])", "redis.call('TIME')", "-- redis.call('GET', key)", "redis.call('SET', KEYS[5], '1')"} {
		if bad := lint(lua); bad != nil {
			t.Errorf("wrongly seen: %s", lua)
		}
	}
}
