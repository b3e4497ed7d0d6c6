//! Settings of the worker process.

/// Makes the allocator keep freed memory instead of returning it to the kernel: the next mini-batch will need
/// as much as the last one, and new pages cost more than copying into used ones.
pub(super) fn keep_memory() {
    #[cfg(target_env = "gnu")]
    {
        // The largest threshold that glibc accepts.
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
