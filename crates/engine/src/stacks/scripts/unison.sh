# hosts: github.com objects.githubusercontent.com release-assets.githubusercontent.com
# Unison's codebase manager, with its language server and MCP server.
say "Unison"
fetch https://github.com/unisonweb/unison/releases/latest/download/ucm-linux-x64.tar.gz /tmp/ucm.tar.gz
mkdir -p /opt/unison
tar -xzf /tmp/ucm.tar.gz -C /opt/unison
ln -sf /opt/unison/ucm /usr/local/bin/ucm
rm -f /tmp/ucm.tar.gz
