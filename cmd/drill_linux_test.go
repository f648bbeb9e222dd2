//go:build cgo && linux && !no_sqlite

package cmd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"flockd/drill"
)

// drilled is what a drill in a store of the test's own says.
func drilled(t *testing.T, wrap string, args ...string) (code int, v drillView, stderr string) {
	t.Helper()
	cmd := flockd(t, append([]string{"drill", "--key", "svc", "--json"}, args...)...)
	cmd.Env = append(cmd.Env, "FLOCKD_TEST_WRAP="+wrap, "TMPDIR="+t.TempDir())
	code, stdout, stderr := exitOf(t, cmd)
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, stdout, stderr)
	}
	return code, v, stderr
}

// TestDrillPasses in a store that is none of the broken ones.
func TestDrillPasses(t *testing.T) {
	code, v, stderr := drilled(t, "")
	if code != 0 || !v.Passed || len(v.Failures) != 0 {
		t.Errorf("exit code %d, %+v\n%s", code, v, stderr)
	}
}

// TestDrillFindsFaults: in a store whose leases overlap, and in one that repeats its tokens.
func TestDrillFindsFaults(t *testing.T) {
	for _, c := range []struct {
		wrap string
		want drill.Failure
		says string
	}{
		{"grants-at-once", drill.Overlap, "two commands ran at once, for "},
		{"repeats-terms", drill.TermsFell, "a term is not larger than the one before"},
	} {
		t.Run(c.wrap, func(t *testing.T) {
			code, v, stderr := drilled(t, c.wrap, "--kill", "--ttl", "3s")
			if code != 1 || v.Passed || !slices.Contains(v.Failures, c.want) {
				t.Errorf("exit code %d, %+v", code, v)
			}
			if !strings.Contains(stderr, "the drill of svc failed: ") || !strings.Contains(stderr, c.says) {
				t.Errorf("stderr:\n%s", stderr)
			}
		})
	}
}
