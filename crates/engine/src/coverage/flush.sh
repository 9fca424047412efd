# Has the services that can write down which of their code ran, and waits for them: $1 is the folder, $2 a number of looks.
cd "$1" 2>/dev/null || exit 0
told=
for file in pids/*; do
  pid=${file##*/}
  # Only a process that catches the signal is told: to all others it is the end.
  caught=$(sed -n 's/^SigCgt:[[:space:]]*\([0-9a-f]*\)$/\1/p' "/proc/$pid/status" 2>/dev/null)
  [ -n "$caught" ] || continue
  low=${caught#????????}
  [ $((0x$low & 0x20000000)) -ne 0 ] || continue
  rm -f "done/$pid"
  kill -PWR "$pid" 2>/dev/null && told="$told $pid"
done
looks=$2
for pid in $told; do
  while [ ! -e "done/$pid" ] && [ -d "/proc/$pid" ] && [ "$looks" -gt 0 ]; do
    sleep 0.02
    looks=$((looks - 1))
  done
done
ls pids 2>/dev/null | wc -l
