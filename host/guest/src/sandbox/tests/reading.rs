//! Files that the host reads for the guest.

use super::*;

/// A guest that calls the host to read the first file of its mini-batch. The guest returns the
/// bytes or the error as one row.
pub(super) fn reader() -> String {
    format!(
        r#"(import "sandmill:entry/host@0.2.0" "read" (func $read (param i32 i32 i32)))
        {RETURN}
        RUN
          (call $read (i32.load (local.get $ptr)) (i32.load offset=4 (local.get $ptr)) (i32.const 32))
          (i32.store (i32.const 64) (i32.load (i32.const 36)))
          (i32.store (i32.const 68) (i32.load (i32.const 40)))
          (call $return (i32.const 0) (i32.const 64) (i32.const 1)))"#
    )
}

#[test]
fn the_host_reads_files_for_the_guest() {
    let fixture = GuestFixture::new("run-only", &reader());
    let mut instance = fixture.instance();
    for (path, answer) in [
        ("/inputs/a.txt", "alpha"),
        (
            "/inputs/../stderr.txt",
            "/inputs/../stderr.txt: it is outside of the folders that were granted",
        ),
        (
            "/proc/self/environ",
            "/proc/self/environ: it is outside of the folders that were granted",
        ),
    ] {
        let (_, result) = run(&mut instance, MiniBatchData::Files(&[path.to_owned()]));
        assert_eq!(result.expect("succeeds").rows, [answer]);
    }
}

/// The length that a file system reports may be wrong, or may change. The guests of these tests can allocate
/// memory, but not free it.
#[test]
fn files_are_read_whole_despite_a_wrong_length() {
    let mut fixture = GuestFixture::new("run-only", &reader());
    for (host, guest) in [("/proc/sys/kernel", "/none"), ("/sys/devices/system/cpu", "/too-much")] {
        fixture.grants.mounts.push(Mount {
            host: host.into(),
            guest: guest.into(),
            writable: false,
        });
    }
    let mut instance = fixture.instance();
    let mut read = |path: &str| {
        let (_, result) = run(&mut instance, MiniBatchData::Files(&[path.to_owned()]));
        result.expect("succeeds").rows
    };
    let on_host = |path: &str| std::fs::read_to_string(path).expect("reads");
    assert_eq!(on_host("/proc/sys/kernel/ostype").len(), 6);
    assert_eq!(read("/none/ostype"), ["Linux\n"], "its reported length is 0");
    let online = "/sys/devices/system/cpu/online";
    assert_eq!(std::fs::metadata(online).expect("is there").len(), 4096);
    assert_eq!(read("/too-much/online"), [on_host(online)]);
    std::fs::write(fixture.path("inputs/empty"), "").expect("writes");
    assert_eq!(read("/inputs/empty"), [""]);
}
