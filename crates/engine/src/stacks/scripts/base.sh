# What every stack has.
packages ca-certificates curl git tmux ripgrep jq less procps unzip xz-utils openssh-client python3 make
