//! The error type of entry scripts. `?` converts every other error and every text to this type.

use std::error::Error as StdError;
use std::fmt;

/// The result of `init` and of `run`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of a failure, and the contexts: what the code was doing.
///
/// `?` converts every `std::error::Error` and every text to this type. Its text has all contexts and causes:
///
/// ```
/// use sandmill_guest::{Context, Result};
///
/// fn classes(text: &str) -> Result<u32> {
///     if text.is_empty() {
///         return Err("the file is empty".into());
///     }
///     Ok(text.trim().parse::<u32>().context("number of classes")?)
/// }
///
/// assert_eq!(classes("3").unwrap(), 3);
/// assert_eq!(classes("").unwrap_err().to_string(), "the file is empty");
/// assert_eq!(
///     classes("x").unwrap_err().to_string(),
///     "number of classes: invalid digit found in string"
/// );
/// ```
pub struct Error {
    cause: Box<dyn StdError + Send + Sync>,
    /// What the code was doing, the innermost context first.
    contexts: Vec<String>,
}

impl Error {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Error { cause: message.into().into(), contexts: Vec::new() }
    }

    /// Adds a context, which says what the code was doing. The context comes before the rest of the text.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.contexts.push(context.into());
        self
    }
}

// `Error` must not implement `std::error::Error`: then this would overlap with `From<T> for T`.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(cause: E) -> Self {
        Error { cause: cause.into(), contexts: Vec::new() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.contexts.iter().rev() {
            write!(f, "{context}: ")?;
        }
        let mut printed = self.cause.to_string();
        f.write_str(&printed)?;
        let mut cause = self.cause.source();
        while let Some(next) = cause {
            // Many errors already print their source.
            let text = next.to_string();
            if !printed.contains(&text) {
                write!(f, ": {text}")?;
                printed = text;
            }
            cause = next.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Adds a context to an error, or turns a missing value into an error.
pub trait Context<T> {
    /// Adds a fixed text.
    fn context(self, context: impl Into<String>) -> Result<T>;

    /// Adds a text. The function is called only if there is an error.
    fn with_context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, context: impl Into<String>) -> Result<T> {
        self.map_err(|error| error.into().context(context))
    }

    fn with_context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.map_err(|error| error.into().context(context()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, context: impl Into<String>) -> Result<T> {
        self.ok_or_else(|| Error::new(context))
    }

    fn with_context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.ok_or_else(|| Error::new(context()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no model")
        }
    }
    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn prints_contexts_then_causes() {
        let fails = || -> Result<()> { Err(Outer(std::io::Error::other("disk gone")))? };
        let error = fails().context("load").with_context(|| "init").unwrap_err();
        assert_eq!(error.to_string(), "init: load: no model: disk gone");
    }

    #[test]
    fn texts_and_missing_values_are_errors() {
        let fails = || -> Result<()> { Err("no")? };
        assert_eq!(format!("{:?}", fails().unwrap_err()), "no");
        let none: Option<u8> = None;
        assert_eq!(none.context("no column x").unwrap_err().to_string(), "no column x");
    }
}
