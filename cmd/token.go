package cmd

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"flockd/backends"
)

// tokenVariable is the fencing token of the hold, for what flockd run runs.
const tokenVariable = "FLOCKD_TOKEN"

func newToken() *value[backends.Token] { return unsetValue[backends.Token]("N", 0, parseToken) }

// parseToken reads a token as flockd writes it: a decimal number and nothing else.
func parseToken(text string) (backends.Token, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "":
		return 0, errEmpty
	case errors.Is(err, strconv.ErrSyntax) || n > 0 && n <= int64(backends.MaxToken) && text != strconv.FormatInt(n, 10):
		return 0, errors.New("a token is a decimal number in digits alone")
	case n < 1:
		return 0, errors.New("tokens begin at 1")
	case n > int64(backends.MaxToken):
		return 0, errors.New("tokens end below 2^53, 9007199254740992")
	}
	return backends.Token(n), nil
}

func addToken(set *pflag.FlagSet, token *value[backends.Token]) {
	addFlag(set, groupLock, "token", "", token, "the fencing token of whoever writes").
		Annotations[byDefault] = []string{"$" + tokenVariable}
}

// tokenOf is the token that the flag gives, else the variable. None is a usage error.
func tokenOf(flag *value[backends.Token], streams Streams) (backends.Token, error) {
	if flag.given() {
		return flag.of, nil
	}
	if text := streams.missing(tokenVariable); text != "" {
		return 0, usage(noToken, "no token is given, and %s", text)
	}
	text := streams.getenv(tokenVariable)
	if err := flag.preset(text, tokenVariable); err != nil {
		return 0, usage("", "%s %s: %w", tokenVariable, shortened(text), err)
	}
	return flag.of, nil
}
