//go:build linux

package testscripts
