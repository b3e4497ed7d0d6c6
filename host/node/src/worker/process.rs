//! What this process asks of the operating system for itself.

/// Makes the allocator keep memory instead of giving it back: mini-batches are alike, so what one
/// needed the next will need, and fresh pages cost more than copying into warm ones.
pub(super) fn keep_memory() {
    #[cfg(target_env = "gnu")]
    {
        // The largest threshold that glibc takes.
        const MMAP_THRESHOLD: libc::c_int = 32 << 20;
        const TRIM_THRESHOLD: libc::c_int = 1 << 30;
        // SAFETY: mallopt only sets the allocator's parameters, and no second thread exists yet.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
        }
    }
}
