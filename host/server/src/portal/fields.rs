//! The fields of a form.

/// The fields of a form, in order. A name may be there several times.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    /// The value of a field. Empty if the form does not have it.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The value of a field without spaces around it. `None` if it is empty, or if the form does not have it.
    pub(super) fn filled(&self, name: &str) -> Option<String> {
        let value = self.get(name).trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// All values of the fields with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The number in a field. `None` if the field is empty.
    ///
    /// # Errors
    /// If it is not a number: the text to show.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.filled(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("{name}: found {text:?}; expected a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_count_as_missing() {
        let pairs = [("a", " 1 "), ("b", " "), ("s", "x"), ("s", "y"), ("n", "one")];
        let fields = Fields(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!((fields.filled("a"), fields.filled("b")), (Some("1".to_owned()), None));
        assert_eq!(fields.all("s").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!((fields.number::<u32>("a"), fields.number::<u32>("z")), (Ok(Some(1)), Ok(None)));
        assert!(fields.number::<u32>("n").unwrap_err().contains("expected a number"));
    }
}
