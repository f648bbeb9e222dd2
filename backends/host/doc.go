// Package host tells what a lock or a file on this host has to know of the system:
// which file systems others share, what is mounted, and which process is in the way.
package host
