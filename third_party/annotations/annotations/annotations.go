// Package annotations stands in for the one that describes HTTP gateways.
package annotations
