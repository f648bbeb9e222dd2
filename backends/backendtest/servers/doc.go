// Package servers runs the real servers that a store's tests need, on ports of
// 127.0.0.1, or on hosts of a network that the test has made, and in folders of their own.
// It does to them and to the connections between what goes wrong in real life.
//
// Every server dies with the test that started it, and with the test binary, even
// when that is killed. What a test asks for and doesn't get, fails the test: nothing
// here skips. Methods that change something may be called from any goroutine of a
// test that still runs.
package servers
