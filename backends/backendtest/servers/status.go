package servers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// status is what an etcd member tells of itself.
type status struct {
	Header struct {
		Member string `json:"member_id"`
	}
	Leader string // "0" or "": it knows none
}

// asking has no connections left over, which would end up at a server's successor.
var asking = http.Client{
	Timeout:   2 * time.Second, // a member that is frozen doesn't answer at all
	Transport: &http.Transport{DisableKeepAlives: true},
}

func statusOf(addr string) (s status, err error) {
	resp, err := asking.Post("http://"+addr+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("status: %s", resp.Status)
	}
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// transfer has the member that leads give the lead to another.
func transfer(addr, to string) error {
	resp, err := asking.Post("http://"+addr+"/v3/maintenance/transfer-leadership", "application/json",
		strings.NewReader(fmt.Sprintf(`{"targetID":%q}`, to)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("transfer the lead: %s", resp.Status)
	}
	return nil
}

// peersOf is how many members one is connected to, 0 if it doesn't say.
func peersOf(addr string) (active int) {
	resp, err := asking.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "etcd_network_active_peers{") && strings.HasSuffix(lines.Text(), " 1") {
			active++
		}
	}
	return active
}
