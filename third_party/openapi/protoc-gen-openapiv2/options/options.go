// Package options stands in for the one that describes HTTP gateways to people.
package options
