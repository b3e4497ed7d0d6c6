//! A compact list of names.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::fmt;

/// A list of texts, such as the files of a mini-batch. It is serialised as a list of strings. In memory it
/// has only two allocations, because jobs send millions of names from process to process.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Names {
    text: String,
    /// The end of each name in the text.
    ends: Vec<usize>,
}

impl Names {
    /// Appends a name.
    pub fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The first name.
    pub fn first(&self) -> Option<&str> {
        self.iter().next()
    }

    /// The last name.
    pub fn last(&self) -> Option<&str> {
        self.iter().next_back()
    }

    /// All names, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        (0..self.ends.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.text[start..self.ends[index]]
        })
    }

    /// The total bytes of all names.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// The approximate memory of the list, in bytes.
    pub fn size(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut list = Self::default();
        names.into_iter().for_each(|name| list.push(name.as_ref()));
        list
    }
}

impl<S: AsRef<str>, const N: usize> From<[S; N]> for Names {
    fn from(names: [S; N]) -> Self {
        names.into_iter().collect()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|name| list.serialize_element(name))?;
        list.end()
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(NamesList)
    }
}

struct NamesList;

impl<'de> Visitor<'de> for NamesList {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names = Names::default();
        // The sender is untrusted, so do not reserve as much memory as the sender claims to need.
        names.ends.reserve(list.size_hint().unwrap_or(0).min(1024));
        while list.next_element_seed(NextText(&mut names))?.is_some() {}
        Ok(names)
    }
}

/// Reads the next string of a list, and appends it to the names without an allocation.
struct NextText<'a>(&'a mut Names);

impl<'de> DeserializeSeed<'de> for NextText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NextText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        self.0.push(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_behave_like_a_list_of_strings(texts in prop::collection::vec(".{0,9}", 0..9)) {
            let names: Names = texts.iter().collect();
            prop_assert_eq!(names.iter().collect::<Vec<_>>(), texts.iter().collect::<Vec<_>>());
            let back: Vec<_> = names.iter().rev().collect();
            prop_assert_eq!(back, texts.iter().rev().collect::<Vec<_>>());
            prop_assert_eq!((names.len(), names.is_empty()), (texts.len(), texts.is_empty()));
            prop_assert_eq!(names.first(), texts.first().map(String::as_str));
            prop_assert_eq!(names.last(), texts.last().map(String::as_str));
            prop_assert_eq!(format!("{names:?}"), format!("{texts:?}"));
            // The serialised form equals that of a list of strings.
            let wire = postcard::to_allocvec(&names).unwrap();
            prop_assert_eq!(&wire, &postcard::to_allocvec(&texts).unwrap());
            prop_assert_eq!(&postcard::from_bytes::<Names>(&wire).unwrap(), &names);
            let json = serde_json::to_string(&names).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Names>(&json).unwrap(), &names);
        }
    }

    #[test]
    fn an_invalid_list_is_an_error() {
        assert!(serde_json::from_str::<Names>("[\"a\", 1]").is_err());
        assert!(serde_json::from_str::<Names>("\"a\"").is_err());
        // The length of the list is more than the bytes contain.
        assert!(postcard::from_bytes::<Names>(&[255, 255, 255, 255, 15]).is_err());
    }
}
