package cmd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"flockd/backends"
	"flockd/backends/mem"
)

func TestFenceRefuses(t *testing.T) {
	find := func(context.Context, *backends.URL) (backends.Backend, error) {
		t.Error("the store was opened")
		return nil, errors.New("no")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"admti"}, "did you mean flockd fence admit?"},
		{[]string{"admit"}, "no RESOURCE is given"},
		{[]string{"admit", "a", "b", "--token", "1"}, "one argument too many: b"},
		{[]string{"admit", "a"}, "no token is given, and FLOCKD_TOKEN is not set"},
		{[]string{"admit", "", "--token", "1"}, "the resource is empty"},
		{[]string{"admit", strings.Repeat("r", 600), "--token", "1"}, "the resource has 600 bytes, 512 at most"},
		{[]string{"admit", "a\x1bb", "--token", "1"}, "the resource has a control character"},
		{[]string{"admit", "a\xff", "--token", "1"}, "the resource is not valid UTF-8"},
		{[]string{"admit", "a", "--token", ""}, `--token "": it is empty`},
		{[]string{"admit", "a", "--token", "0"}, "--token 0: tokens begin at 1"},
		{[]string{"admit", "a", "--token", "-5"}, "--token -5: tokens begin at 1"},
		{[]string{"admit", "a", "--token", "9007199254740992"}, "tokens end below 2^53"},
		{[]string{"admit", "a", "--token", "9223372036854775808"}, "tokens end below 2^53"},
		{[]string{"admit", "a", "--token", "1" + strings.Repeat("0", 400)}, "0…0"},
		{[]string{"admit", "a", "--token", "5 "}, `--token "5 ": a token is a decimal number`},
		{[]string{"admit", "a", "--token", "5\n"}, "a token is a decimal number"},
		{[]string{"admit", "a", "--token", "-q"}, "looks like a flag"},
		{[]string{"admit", "a", "--token", "1", "--token", "2"}, "--token is given twice"},
		{[]string{"admit", "a", "--token", "1", "--backend", "redis://u:***@h/0"}, "the URL has *** where its secret was"},
		{[]string{"show", ""}, "the resource is empty"},
		{[]string{"show", "a", "--token", "1"}, "there is no flag --token"},
		{[]string{"reset", "a"}, "no --to is given"},
		{[]string{"reset", "a", "--to", "0"}, "--to 0: tokens begin at 1"},
		{[]string{"reset", "a", "--to", "x"}, "--to x: a token is a decimal number"},
		{[]string{"reset", "a", "--force"}, "no --to is given"},
	} {
		wantUsage(t, queryFound(t, find, append([]string{"fence"}, c.args...)...), c.want)
	}
	wantUsage(t, queryFound(t, find, "fence"), "no command is given")
}

// fenceSteps are run one after the other on one store, with what each answers.
var fenceSteps = []struct {
	args, stdout, stderr string
	code                 int
}{
	{"show db/orders", "", `no token has been admitted for "db/orders" in redis://u:***@h/0` + "\n", 1},
	{"show db/orders -q", "", "", 1},
	{"show db/orders --json", `{"resource":"db/orders","token":null,"backend":"redis://u:***@h/0"}` + "\n", "", 1},
	{"admit db/orders --token 57", "", "", 0},
	{"admit db/orders --token 57", "", "", 0},
	{"admit db/orders --token 41 -q", "", "flockd: stale: token 41 for db/orders, which has seen 57\n", 80},
	{"show db/orders", "57\n", "", 0},
	{"show db/orders --json", `{"resource":"db/orders","token":57,"backend":"redis://u:***@h/0"}` + "\n", "", 0},
	{"reset db/orders --to 56", "", "flockd: stale: token 56 for db/orders, which has seen 57\nflockd: hint: --force sets it down", 80},
	{"reset db/orders --to 57", "", `flockd: the largest token of "db/orders" is 57, as it was`, 0},
	{"reset db/orders --to 58", "", `flockd: the largest token of "db/orders" is 58 now; it was 57`, 0},
	{"reset db/orders --to 5 --force", "", `flockd: the largest token of "db/orders" is 5 now; it was 58`, 0},
	{"reset new --to 5 -q", "", "", 0},
	{"reset other --to 5", "", `flockd: the largest token of "other" is 5 now; none had been admitted`, 0},
	{"admit db/orders --token 9007199254740991", "", "", 0},
	{"reset db/orders --to 6 --force --log-format json", "", `"resource":"db/orders","backend":"redis://u:***@h/0","was":9007199254740991,"token":6}` + "\n", 0},
	{"show db/orders", "6\n", "", 0},
}

func TestFenceRegister(t *testing.T) {
	store := mem.New()
	for _, c := range fenceSteps {
		o := queryStore(t, store, append([]string{"fence"}, strings.Fields(c.args)...)...)
		if o.code != c.code || o.stdout != c.stdout || !strings.Contains(o.stderr, c.stderr) || (c.stderr == "") != (o.stderr == "") {
			t.Errorf("flockd fence %s: %+v", c.args, o)
		}
	}
}

// forgetful is a register whose first answers get lost: the token is admitted, or not.
type forgetful struct {
	*mem.Store
	lost int
}

func (f *forgetful) answer(err error) error {
	if f.lost--; f.lost >= 0 {
		return errors.New("connection reset")
	}
	return err
}

func (f *forgetful) Admit(ctx context.Context, resource string, token backends.Token) error {
	return f.answer(f.Store.Admit(ctx, resource, token))
}

func (f *forgetful) Highest(ctx context.Context, resource string) (backends.Token, error) {
	token, err := f.Store.Highest(ctx, resource)
	return token, f.answer(err)
}

func (f *forgetful) Reset(ctx context.Context, resource string, to backends.Token, down bool) error {
	return f.answer(f.Store.Reset(ctx, resource, to, down))
}

func TestFenceAsksAgain(t *testing.T) {
	store := &forgetful{mem.New(), 0}
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"admit r --token 7", "", "", 0},
		{"admit r --token 6", "", "has seen 7", 80},
		{"show r", "7\n", "", 0},
		{"reset r --to 5 --force", "", "is 5 now; it was 7", 0},
	} {
		store.lost = 2
		o := queryStore(t, store, append([]string{"fence"}, strings.Fields(c.args)...)...)
		if o.stdout != c.stdout {
			t.Errorf("flockd fence %s: stdout %q", c.args, o.stdout)
		}
		wantAnswer(t, o, c.code, c.stderr)
		if store.lost >= 0 {
			t.Errorf("flockd fence %s: not asked again", c.args)
		}
	}
}

// Who writes a token down by hand makes the store; a writer that asks doesn't, since its store
// would be another one.
func TestFenceMakesTheStore(t *testing.T) {
	unused := &backends.UnusedError{Address: "sqlite:///a.db", Why: "no such file"}
	find := func(context.Context, *backends.URL) (backends.Backend, error) { return nil, unused }
	made := mem.New()
	open := func(context.Context, *backends.URL) (backends.Backend, error) { return made, nil }
	wantAnswer(t, queryMade(t, find, open, "fence", "show", "r"), 1, `no token has been admitted for "r" in sqlite:///a.db (no such file)`+"\n")
	const never = "flockd: nobody has used the store sqlite:///a.db (no such file) yet: it is not the one that has granted token 5\nflockd: hint: flockd fence reset RESOURCE --to N begins"
	if o := queryMade(t, find, open, "fence", "admit", "r", "--token", "5"); o.code != 69 || !strings.HasPrefix(o.stderr, never) {
		t.Errorf("%+v", o)
	}
	if token, err := made.Highest(t.Context(), "r"); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("admit has made the store: %d, %v", token, err)
	}
	wantAnswer(t, queryMade(t, find, open, "fence", "reset", "r", "--to", "6", "-q"), 0, "")
	if token, err := made.Highest(t.Context(), "r"); token != 6 || err != nil {
		t.Errorf("%d, %v", token, err)
	}
}

// withoutRegister is a store in use that a flockd without registers has made.
type withoutRegister struct{ *mem.Store }

func (withoutRegister) Admit(context.Context, string, backends.Token) error {
	return &backends.UnusedError{Address: "postgres://h/app", Why: "it has no register yet"}
}

func TestAdmitMakesTheRegisterOfAStoreInUse(t *testing.T) {
	store := mem.New()
	find := func(context.Context, *backends.URL) (backends.Backend, error) { return withoutRegister{store}, nil }
	open := func(context.Context, *backends.URL) (backends.Backend, error) { return store, nil }
	wantAnswer(t, queryMade(t, find, open, "fence", "admit", "r", "--token", "5"), 0, "")
	wantAnswer(t, queryMade(t, find, open, "fence", "admit", "r", "--token", "4"), 80, "has seen 5\n")
}

func TestAdmitWantsANamedStore(t *testing.T) {
	opened := func(context.Context, *backends.URL) (backends.Backend, error) {
		t.Error("the default store was opened")
		return nil, errors.New("no")
	}
	o := queryWith(t, []string{"FLOCKD_CONFIG=/dev/null", "FLOCKD_TOKEN=5"}, opened, opened, "fence", "admit", "r")
	if o.code != 69 || !strings.HasPrefix(o.stderr, "flockd: no store is named\nflockd: hint: --backend URL or FLOCKD_BACKEND names ") {
		t.Errorf("%+v", o)
	}
}

func TestStoreWithoutRegister(t *testing.T) {
	for _, args := range []string{"admit r --token 5", "show r", "reset r --to 5"} {
		o := queryStore(t, statusStore{}, append([]string{"fence"}, strings.Fields(args)...)...)
		wantAnswer(t, o, 69, "the store redis://u:***@h/0 has no register of fencing tokens")
	}
}
