#!/bin/sh
# Run by dpkg before it does anything (pre-invoke). Gives the room its own copy of every file that
# the packages about to be unpacked will replace.
set -u
test "$(id -u)" = 0 || exit 0

# dpkg runs us through a shell: it is our parent, or our parent's.
dpkg=$PPID
for _ in 1 2; do
    case "$(tr '\0' ' ' <"/proc/$dpkg/cmdline" | cut -d' ' -f1)" in
    *dpkg) break ;;
    esac
    dpkg=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$dpkg/status")
done

copy_up() {
    # A file that another package diverted has its true place on a line of its own.
    dpkg-query --listfiles "$1" 2>/dev/null | sed 's/^diverted by .* to: //' | while IFS= read -r file; do
        # 65534: an owner whom this room does not know.
        if [ -f "$file" ] && [ ! -L "$file" ] && [ "$(stat -c %u "$file")" = 65534 ]; then
            cp --preserve=timestamps "$file" "$file.hothouse" &&
                chmod "$(stat -c %a "$file")" "$file.hothouse" &&
                mv -f "$file.hothouse" "$file"
        fi
    done
}

tr '\0' '\n' <"/proc/$dpkg/cmdline" | while IFS= read -r word; do
    if [ -d "$word" ]; then
        find "$word" -name '*.deb'
    else
        case "$word" in *.deb) echo "$word" ;; esac
    fi
done | while IFS= read -r archive; do
    copy_up "$(dpkg-deb --field "$archive" Package)"
done
exit 0
