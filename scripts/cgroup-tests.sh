#!/usr/bin/env bash
# Runs the tests of cgroups (tests/tests/walls/cgroups.rs) in a virtual machine with a Debian kernel. Use it if the
# tests cannot create cgroups with limits on your machine. Needs Debian or Ubuntu with qemu-system-x86, busybox-static
# and e2fsprogs. Run `cargo build --workspace --all-targets` first. Takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=target/cgroup-tests
rm -rf "$work"
mkdir -p "$work/start/bin" "$work/start/disk" "$work/disk"/{bin,dev,proc,sys,tmp}
# shellcheck disable=SC2012
tests=$root/$(ls -t target/debug/deps/walls-* | grep -v '\.d$' | head -n 1)

# The kernel, and the modules for the disk.
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" { print $2; exit }')
(cd "$work" && apt-get download "$kernel" && dpkg-deb -x "$kernel"_*.deb kernel)
find "$work/kernel" -name 'virtio*.ko' -exec cp -t "$work/start" {} +

# The program `init` of the initial RAM disk, which mounts the disk and runs the tests.
cp /bin/busybox "$work/start/bin"
cat >"$work/start/init" <<'END'
#!/bin/busybox sh
PATH=/bin; /bin/busybox --install -s /bin; mount -t devtmpfs none /dev
for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
    insmod /$module.ko
done
mount -t ext4 /dev/vda /disk
for kind in devtmpfs:dev proc:proc sysfs:sys cgroup2:sys/fs/cgroup; do
    mount -t ${kind%:*} none /disk/${kind#*:}
done
chroot /disk /bin/sh /test.sh
sync; poweroff -f
END
chmod +x "$work/start/init"
(cd "$work/start" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip >"$work/start.gz"

# The disk: the tests and the files that they need, at their usual paths.
for file in "$tests" "$root/target/debug/sandmill"; do
    for needed in "$file" $(ldd "$file" | grep -o '/[^ ]*'); do
        install -D "$needed" "$work/disk$needed"
    done
done
cp /bin/busybox "$work/disk/bin"
for name in grep mkdir sh; do ln -s busybox "$work/disk/bin/$name"; done
mkdir -p "$work/disk$root"/{tests,target}
cp -r wit "$work/disk$root"
cat >"$work/disk/test.sh" <<END
export PATH=/bin HOME=/tmp
$root/target/debug/sandmill doctor
$tests cgroups:: --nocapture && echo the tests passed
echo cgroups that are left: /sys/fs/cgroup/sandmill-*
END
truncate -s 3G "$work/disk.img"
mke2fs -q -t ext4 -d "$work/disk" "$work/disk.img"

timeout 1200 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nographic -no-reboot \
    -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/start.gz" \
    -drive "file=$work/disk.img,format=raw,if=virtio,cache=unsafe" \
    -append 'console=ttyS0 panic=-1 quiet' </dev/null | tee "$work/log"
grep -q 'the tests passed' "$work/log"
