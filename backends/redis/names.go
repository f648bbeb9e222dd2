package redis

import (
	"strings"

	"flockd/backends"
)

// escaper keeps the tag of a name whole: Redis hashes what stands between the first
// brace and the next closing one, or the whole name if that is nothing.
var escaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

var unescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")

// globber makes text match itself alone in a pattern.
var globber = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// names makes the names of all that is kept of a key. All have one hash tag, and so
// one slot of a cluster.
type names string // prefix

func (n names) part(key, part string) string {
	return string(n) + ":{" + escaper.Replace(key) + "}:" + part
}

// keys are a script's KEYS: common.lua says what they are.
func (n names) keys(key, id string) []string {
	return []string{
		n.part(key, "line"), n.part(key, "ends"), n.part(key, "claims"), n.part(key, "key"), n.part(key, "ended:"+id),
		n.part(key, "index"), n.part(key, "done"), n.part(key, "order"), n.part(key, "forgets"),
	}
}

// bell is the list that is pushed to when the turn of the waiter id has come.
func (n names) bell(key, id string) string { return n.part(key, "bell:"+id) }

// fence is what is kept of a resource of the register: a key may have the same name.
func (n names) fence(resource string) string { return n.part(resource, "fence") }

// pattern matches what stays of the keys that begin with prefix: key and claims.
func (n names) pattern(prefix string) string {
	return globber.Replace(string(n)+":{"+escaper.Replace(prefix)) + "*}:[kc]*"
}

// lock is the key that the name is a part of, if it is one that stays.
func (n names) lock(name string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(name, string(n)+":{")
	tag, part, found := strings.Cut(rest, "}:")
	return unescaper.Replace(tag), ok && found && (part == "key" || part == "claims")
}

// checkPrefix refuses what would be taken for a hash tag.
func checkPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return backends.BadURL("?prefix=%s: no braces, for Redis reads them in names", prefix)
	}
	return nil
}
