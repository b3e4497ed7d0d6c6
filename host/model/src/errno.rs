//! The error numbers of WASI. They differ from those of Linux: `os error 2` means a missing file on Linux,
//! but not in WASI.

use std::borrow::Cow;

/// The names of WASI's error numbers. The first is number 1.
const ERROR_NAMES: [&str; 76] = [
    "E2BIG",
    "EACCES",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "EAFNOSUPPORT",
    "EAGAIN",
    "EALREADY",
    "EBADF",
    "EBADMSG",
    "EBUSY",
    "ECANCELED",
    "ECHILD",
    "ECONNABORTED",
    "ECONNREFUSED",
    "ECONNRESET",
    "EDEADLK",
    "EDESTADDRREQ",
    "EDOM",
    "EDQUOT",
    "EEXIST",
    "EFAULT",
    "EFBIG",
    "EHOSTUNREACH",
    "EIDRM",
    "EILSEQ",
    "EINPROGRESS",
    "EINTR",
    "EINVAL",
    "EIO",
    "EISCONN",
    "EISDIR",
    "ELOOP",
    "EMFILE",
    "EMLINK",
    "EMSGSIZE",
    "EMULTIHOP",
    "ENAMETOOLONG",
    "ENETDOWN",
    "ENETRESET",
    "ENETUNREACH",
    "ENFILE",
    "ENOBUFS",
    "ENODEV",
    "ENOENT",
    "ENOEXEC",
    "ENOLCK",
    "ENOLINK",
    "ENOMEM",
    "ENOMSG",
    "ENOPROTOOPT",
    "ENOSPC",
    "ENOSYS",
    "ENOTCONN",
    "ENOTDIR",
    "ENOTEMPTY",
    "ENOTRECOVERABLE",
    "ENOTSOCK",
    "ENOTSUP",
    "ENOTTY",
    "ENXIO",
    "EOVERFLOW",
    "EOWNERDEAD",
    "EPERM",
    "EPIPE",
    "EPROTO",
    "EPROTONOSUPPORT",
    "EPROTOTYPE",
    "ERANGE",
    "EROFS",
    "ESPIPE",
    "ESRCH",
    "ESTALE",
    "ETIMEDOUT",
    "ETXTBSY",
    "EXDEV",
    "ENOTCAPABLE",
];

/// The text before and after an error number in messages of Rust and Python.
const AROUND_NUMBERS: [(&str, char); 2] = [("(os error ", ')'), ("[Errno ", ']')];

/// Adds names to the error numbers in a guest's text: `(os error 44, which is ENOENT in WASI)`.
pub fn with_errno_names(text: &str) -> Cow<'_, str> {
    let mut named = Cow::Borrowed(text);
    for (before, after) in AROUND_NUMBERS {
        if named.contains(before) {
            named = Cow::Owned(with_errno_names_between(&named, before, after));
        }
    }
    named
}

fn with_errno_names_between(text: &str, before: &str, after: char) -> String {
    let mut parts = text.split(before);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        named.push_str(before);
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let number = part[..end].parse::<usize>().ok().filter(|_| part[end..].starts_with(after));
        let name = number.and_then(|number| ERROR_NAMES.get(number.checked_sub(1)?));
        named.push_str(&part[..end]);
        if let Some(name) = name {
            named.push_str(&format!(", which is {name} in WASI"));
        }
        named.push_str(&part[end..]);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_their_names() {
        for (text, named) in [
            (
                "/inputs/a: No such file or directory (os error 44)",
                "/inputs/a: No such file or directory (os error 44, which is ENOENT in WASI)",
            ),
            (
                "Permission denied (os error 2): a (os error 63)",
                "Permission denied (os error 2, which is EACCES in WASI): a (os error 63, which is \
                 EPERM in WASI)",
            ),
            (
                "[Errno 76] Capabilities insufficient: '/x'",
                "[Errno 76, which is ENOTCAPABLE in WASI] Capabilities insufficient: '/x'",
            ),
            ("(os error 0) (os error 77) (os error x) (os error 7", "="),
            ("(os error 99999999999999999999999)", "="),
            ("no number", "="),
        ] {
            assert_eq!(with_errno_names(text), if named == "=" { text } else { named });
        }
    }
}
