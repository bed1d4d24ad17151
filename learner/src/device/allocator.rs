//! Keeps freed tensor memory in the process.
//!
//! The CPU backend allocates a tensor for every operation. glibc gives big blocks back to the
//! system at once, so that each new tensor pays for fresh page faults: 30–50 % of the time of a
//! forward pass.

/// Asks glibc to keep freed blocks; does nothing elsewhere. Call once, at start.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "mallopt is a C function")]
pub fn keep_freed_memory() {
    const BYTES: i32 = 1 << 30;
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: mallopt only stores the number; it may be called at any time and from any thread.
        unsafe { libc::mallopt(parameter, BYTES) };
    }
}

/// Asks glibc to keep freed blocks; does nothing elsewhere. Call once, at start.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed_memory() {}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_can_be_used_after_the_call() {
        super::keep_freed_memory();
        let big = vec![1u8; 64 << 20];
        assert_eq!(big.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
    }
}
