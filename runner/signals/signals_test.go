package signals

import "testing"

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"flockd", "run", "-k", "k", "true"}, true},
		{[]string{"flockd", "elect", "-k", "k", "true"}, true},
		{[]string{"flockd-guard", "run"}, false}, // the key is run
		{[]string{"flockd", "config", "run"}, false},
		{nil, false},
	} {
		if isRun(c.args) != c.want {
			t.Errorf("%q: %v", c.args, !c.want)
		}
	}
}
