//go:build linux

package testscripts

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

func init() {
	fencingSections["Redis"] = func(p *page) {
		scriptedWriter{
			script: p.take("sh", "./recount.sh"), condition: "if token < seen then", instead: "if false then",
			status: 1, says: "for stock:apples, which has seen ", open: redisStock,
		}.test(p.T)
	}
	fencingSections["etcd"] = func(p *page) {
		once := p.take("sh", "")
		w := scriptedWriter{
			script: p.take("sh", "./recount.sh"), condition: `value("fences/stock") < "$next"`, instead: `version("fences/stock") > "0"`,
			status: 80, says: ": fences/stock has seen ", open: func(r *recipe) service { return etcdStock(r, once) },
		}
		w.test(p.T)
		p.Run("nothing there", func(t *testing.T) {
			t.Parallel()
			etcdIsEmpty(newRecipe(t, block{}, "count.sh", w.script), w)
		})
	}
	fencingSections["S3"] = func(p *page) {
		settings := p.take("text", "./s3.curl")
		settings.text = strings.Replace(settings.text, "KEY:SECRET", servers.S3User+":"+servers.S3Password, 1)
		w := scriptedWriter{
			script: p.take("sh", "./recount.sh"), others: []block{settings}, condition: ` -H "$only"`,
			status: 80, says: " has been there", open: s3Stock,
		}
		w.test(p.T)
		p.Run("from before", func(t *testing.T) {
			t.Parallel()
			s3FromBefore(newRecipe(t, block{}, "count.sh", settings, w.script), w.script)
		})
	}
	fencingSections["An HTTP API"] = func(p *page) {
		server := p.take("python", "./server.py")
		w := scriptedWriter{
			script: p.take("sh", "./recount.sh"), others: []block{server}, condition: " WHERE token <= excluded.token",
			status: 22, says: "The requested URL returned error: 412", open: apiStock,
		}
		w.test(p.T)
		p.Run("no token", func(t *testing.T) {
			t.Parallel()
			apiWithoutToken(newRecipe(t, block{}, "count.sh", server))
		})
	}
}

func redisStock(r *recipe) service {
	url := "redis://" + servers.Redis(r.T).Addr
	return service{
		variables: []string{"REDIS=" + url},
		apples:    func() string { return strings.TrimSpace(r.tool("redis-cli", "-u", url, "HGET", "stock:apples", "n")) },
	}
}

func etcdStock(r *recipe, once block) service {
	variables := []string{"ETCDCTL_ENDPOINTS=" + servers.Etcd(r.T, servers.Current).Addr}
	etcdctl := func(args ...string) string { return r.tool("env", append(variables, args...)...) }
	etcdctl("etcdctl", "put", "stock/apples", "0")
	etcdctl("sh", "-ec", once.text)
	if again := etcdctl("sh", "-ec", once.text); !strings.HasPrefix(again, "FAILURE") {
		r.Errorf("once more: %q", again)
	}
	return service{variables: variables, apples: func() string {
		return strings.TrimSpace(etcdctl("etcdctl", "get", "--print-value-only", "stock/apples"))
	}}
}

// etcdIsEmpty: where there is no stock, the work is told so; where there is no fence, it isn't begun.
func etcdIsEmpty(r *recipe, w scriptedWriter) {
	r.variables = w.open(r).variables
	deletes := func(key string) { r.tool("env", append(r.variables, "etcdctl", "del", key)...) }
	deletes("stock/apples")
	r.alone(w.script, "FLOCKD_TOKEN=41").ends(0)
	if got := strings.Join(r.lines("at-work-1"), " "); got != "at it:" {
		r.Errorf("the work was given %q", got)
	}
	deletes("fences/stock")
	r.alone(w.script, "FLOCKD_TOKEN=42").ends(1).says("there is no fences/stock")
}

func s3Stock(r *recipe) service {
	url := "http://" + servers.S3(r.T, "app").Addr + "/app/stock/apples"
	return service{variables: []string{"STOCK=" + url}, apples: func() string {
		_, apples, _ := strings.Cut(r.tool("curl", "-fsS", "-K", filepath.Join(r.dir, "s3.curl"), url), "\n")
		return strings.TrimSpace(apples)
	}}
}

// s3FromBefore: of an object that had no token, the first line is taken for one.
func s3FromBefore(r *recipe, script block) {
	r.variables = s3Stock(r).variables
	for text, given := range map[string]string{"7\n": "at it:", "0\n7\n": "at it: 7"} {
		r.tool("env", append(r.variables, "sh", "-c", `curl -fsS -K "$0/s3.curl" -X PUT --data-raw "$1" "$STOCK"`, r.dir, text)...)
		r.alone(script, "FLOCKD_TOKEN=41").ends(0)
		if got := strings.Join(r.lines("at-work-1"), " "); got != given {
			r.Errorf("%q: the work was given %q, want %q", text, got, given)
		}
	}
}

func apiStock(r *recipe) service {
	api := serveAPI(r)
	return service{variables: []string{"API=" + api}, apples: func() string {
		return r.tool("curl", "-fsS", "-H", "Fencing-Token: 9007199254740991", api+"/stock/apples")
	}}
}

// serveAPI starts the page's server, and is its address.
func serveAPI(r *recipe) string {
	r.Helper()
	cmd := exec.Command("python3", "server.py", "0")
	cmd.Dir = r.dir
	stdout, err := cmd.StdoutPipe()
	must(r.T, err)
	must(r.T, servers.StartToDieWithUs(cmd))
	r.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	must(r.T, err)
	return strings.TrimSpace(address)
}

// apiWithoutToken: what has no token, or none that flockd would give, changes nothing.
func apiWithoutToken(r *recipe) {
	url := serveAPI(r) + "/stock/apples"
	status := func(args ...string) string {
		return r.tool("curl", append([]string{"-sS", "-o", "/dev/null", "-w", "%{http_code}", url}, args...)...)
	}
	if got := status("-X", "PUT", "-d", "1", "-H", "Fencing-Token: 5"); got != "200" {
		r.Errorf("with a token: status %s", got)
	}
	for _, header := range []string{"", "Fencing-Token;", "Fencing-Token: -6", "Fencing-Token: 6x", "Fencing-Token: 99999999999999999999"} {
		if got := status("-X", "PUT", "-d", "2", "-H", header); got != "428" {
			r.Errorf("%q: status %s", header, got)
		}
	}
	if got := r.tool("curl", "-fsS", "-o", "/dev/null", "-w", "%header{cache-control}", "-H", "Fencing-Token: 5", url); got != "no-store" {
		r.Errorf("a cache may keep it: %q", got)
	}
	if got := r.tool("curl", "-fsS", "-H", "Fencing-Token: 5", url); got != "1" {
		r.Errorf("%s apples, want 1", got)
	}
}
