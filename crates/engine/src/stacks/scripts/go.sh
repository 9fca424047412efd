# hosts: proxy.golang.org sum.golang.org storage.googleapis.com
# Go of the distribution, and what checks code, from Go's module proxy.
packages golang-go gcc libc6-dev
say "from Go's proxy: golangci-lint govulncheck"
proxy=$(go env GOPROXY | cut -d, -f1)
curl -fsSL --connect-timeout 20 -o /dev/null "$proxy/golang.org/x/vuln/@v/list" || unreachable "$proxy"
export GOPATH=/tmp/go GOBIN=/usr/local/bin GOFLAGS=-trimpath
go install golang.org/x/vuln/cmd/govulncheck@latest || go install golang.org/x/vuln/cmd/govulncheck@v1.0.0
go install github.com/golangci/golangci-lint/cmd/golangci-lint@latest \
    || go install github.com/golangci/golangci-lint/cmd/golangci-lint@v1.52.2
chmod -R u+w /tmp/go
rm -rf /tmp/go /root/.cache/go-build
