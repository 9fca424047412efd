# hosts: static.rust-lang.org
# The stable toolchain by rustup where its server can be reached, else that of the distribution; coverage and audits.
packages gcc libc6-dev pkg-config libssl-dev
export CARGO_HOME=/opt/cargo RUSTUP_HOME=/opt/rustup
case $(uname -m) in aarch64) triple=aarch64-unknown-linux-gnu ;; *) triple=x86_64-unknown-linux-gnu ;; esac
mkdir -p /opt/cargo
if curl -fsSL --connect-timeout 20 -o /tmp/rustup-init "https://static.rust-lang.org/rustup/dist/$triple/rustup-init"; then
    say "stable Rust by rustup"
    chmod 755 /tmp/rustup-init
    /tmp/rustup-init -y -q --no-modify-path --profile minimal -c clippy -c rustfmt --default-toolchain stable
    rm -f /tmp/rustup-init
    for tool in cargo rustc rustdoc rustup cargo-clippy clippy-driver cargo-fmt rustfmt; do
        # rustup's programs look for their home: what calls them must name it.
        printf '#!/bin/sh\nRUSTUP_HOME=/opt/rustup exec /opt/cargo/bin/%s "$@"\n' "$tool" >"/usr/local/bin/$tool"
        chmod 755 "/usr/local/bin/$tool"
    done
    audit=cargo-audit tarpaulin=cargo-tarpaulin
else
    packages rustc cargo rust-clippy rustfmt
    # The last releases that compilers of distributions can build.
    audit=cargo-audit@0.17.6 tarpaulin=cargo-tarpaulin@0.22.0
fi
say "from crates.io: $audit $tarpaulin"
cargo install --quiet --locked --root /usr/local "$audit" "$tarpaulin"
rm -rf /opt/cargo/registry /opt/cargo/git
