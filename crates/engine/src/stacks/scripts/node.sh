# Node 22 and its managers from npm's registry, bootstrapped by the npm of the distribution where the host has none.
NODE=22
command -v npm >/dev/null 2>&1 || packages npm
packages gcc g++ libc6-dev
case $(uname -m) in aarch64) arch=arm64 ;; *) arch=x64 ;; esac
say "Node $NODE from npm"
mkdir -p /opt/node
npm install --silent --prefix /opt/node --no-save "node-linux-$arch@$NODE"
# Native modules are built with the headers that came along, rather than with a download of them.
rm -f /usr/local/bin/node
cat >/usr/local/bin/node <<END
#!/bin/sh
export npm_config_nodedir="\${npm_config_nodedir:-/opt/node/node_modules/node-linux-$arch}"
exec /opt/node/node_modules/node-linux-$arch/bin/node "\$@"
END
chmod 755 /usr/local/bin/node
say "from npm: npm pnpm yarn bun c8 eslint prettier"
npm install --silent --global --prefix /usr/local npm@10 pnpm@10 yarn@1 bun c8 eslint prettier
node --version
