// Package runner carries one hold from the first try to the release: it waits in
// line, renews the lease, runs the command under it, and stops the command before
// a lease that can't be proven any more may pass on. It knows no driver.
package runner
