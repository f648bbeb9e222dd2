package cmd

import (
	"context"
	"errors"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/backends/all"
)

// defaultBackend is the store where none is named.
const defaultBackend = "sqlite:"

// backendVariable names the store, for flockd and for what it runs.
const backendVariable = "FLOCKD_BACKEND"

// openAtMost bounds the first try to open a store; what comes after it is the
// wait for the key, with its own limits.
const openAtMost = 2 * time.Second

// errNotOpen says that a store's opening hasn't come to an end.
var errNotOpen = errors.New("the store has not been opened in time")

var errHidden = errors.New("the URL has *** where its secret was")

// parseBackend checks a store's URL without repeating it.
func parseBackend(text string) (string, error) {
	u, err := backends.ParseURL(text)
	switch {
	case err != nil:
		return "", err
	case u.HasHidden():
		return "", errHidden
	}
	_, err = u.Timeout()
	return text, err
}

// badBackend is the usage error for a URL that parseBackend refuses.
func badBackend(from string, err error) error {
	if errors.Is(err, errHidden) {
		return usage("flockd leaves secrets out of what it shows and exports: give the URL with its secret, or for runs inside of others ?password-file= or FLOCKD_BACKEND",
			"%s: %w", from, err)
	}
	return usage("", "%s: %w", from, err)
}

// backendFromVariable takes FLOCKD_BACKEND, unless a flag is stronger.
func (s *settings) backendFromVariable(streams Streams) error {
	text, ok := streams.variable(backendVariable)
	switch {
	case !ok || s.backend.given():
		return nil
	case text == "":
		return usage("unset it to use the configured store or the default", "%s is set but empty: a secret that is missing here?", backendVariable)
	}
	if err := s.backend.preset(text, backendVariable); err != nil {
		return badBackend(backendVariable, err)
	}
	return nil
}

// backendNamed is where the backend was named, for a message.
func backendNamed(from string) string {
	switch from {
	case fromFlag:
		return "--backend"
	case fromDefault:
		return "the default store"
	}
	return from
}

// openStore opens the store at u. One that can't be reached, or takes its time, is
// waited for and tried again whenever it is asked; the error is the user's. A
// signal ends the wait here and stays in the queue, for whoever waits next.
func openStore(u *backends.URL, queue chan os.Signal) (backends.Backend, error) {
	o := newOpening(func() (backends.Backend, error) { return all.Open(context.Background(), u) })
	timer := time.NewTimer(openAtMost)
	defer timer.Stop()
	if !o.latest.waited(timer.C, queue) {
		return o, nil
	}
	var bad *backends.URLError
	switch {
	case o.latest.err == nil:
		return o.latest.store, nil
	case errors.As(o.latest.err, &bad):
		return nil, o.latest.err
	}
	return o, nil
}

// secretsOf are the secrets in u, as they are and as a URL writes them.
func secretsOf(u *backends.URL) []string {
	secrets := []string{u.Password}
	for name, values := range u.Query {
		if (&backends.URL{Query: url.Values{name: values}}).Secret() {
			secrets = append(secrets, values...)
		}
	}
	for _, secret := range secrets {
		secrets = append(secrets, url.PathEscape(secret), url.QueryEscape(secret))
	}
	return secrets
}

// address is what the command gets as FLOCKD_BACKEND: without secrets, and where
// the store knows it, in a form that holds in any folder.
func address(b backends.Backend, u *backends.URL) string { return absolute(b, u).String() }

func absolute(b backends.Backend, u *backends.URL) *backends.URL {
	if a, ok := backends.As[interface{ Address() string }](b); ok {
		if absolute, err := backends.ParseURL(a.Address()); err == nil {
			return absolute
		}
	}
	return u.Absolute()
}

// completeBackend completes a URL with the schemes of this build.
func completeBackend(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var urls []string
	for _, scheme := range all.Schemes() {
		urls = append(urls, scheme+":")
	}
	return urls, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
