//! Lists in pages. A page has a cursor, with which the caller asks for the next one.

use crate::problem::Problem;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The entries of a page if the caller gives no number.
const DEFAULT_LIMIT: u32 = 50;
/// The most entries of a page.
const MOST: u32 = 1000;

/// Which page is asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageAsked {
    /// The `next` of the page before. Leave it out for the first page.
    pub(crate) cursor: Option<String>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<u32>,
}

impl PageAsked {
    /// One more than the entries of the page: the next entry says whether there is another page.
    ///
    /// # Errors
    /// If the number is out of range.
    pub(crate) fn limit(&self) -> Result<u32, Problem> {
        match self.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MOST => Ok(limit + 1),
            other => {
                Err(Problem::bad_request(format!("limit: found {other}; expected 1 to {MOST}")))
            }
        }
    }

    /// What the cursor says. `None` for the first page.
    ///
    /// # Errors
    /// If the cursor is not from a page.
    pub(crate) fn after<T: TryFrom<String>>(&self) -> Result<Option<T>, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let wrong =
            || Problem::bad_request("cursor: expected the value of `next` of the page before");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| wrong())?;
        let text = String::from_utf8(bytes).map_err(|_| wrong())?;
        T::try_from(text).map(Some).map_err(|_| wrong())
    }

    /// As [`after`](Self::after), for numbers.
    ///
    /// # Errors
    /// If the cursor is not from a page.
    pub(crate) fn after_number(&self) -> Result<Option<u64>, Problem> {
        let Some(text) = self.after::<String>()? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Problem::bad_request("cursor: expected the value of `next` of the page before")
        })
    }
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The entries.
    pub(crate) items: Vec<T>,
    /// The cursor for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page of entries, of which there may be one too many. `limit` is that of [`PageAsked::limit`], and `name` the
    /// text after which the next page begins.
    pub(crate) fn new(mut items: Vec<T>, limit: u32, name: impl Fn(&T) -> String) -> Self {
        let has_more = items.len() >= limit as usize;
        items.truncate(limit.saturating_sub(1) as usize);
        let last = items.last().filter(|_| has_more);
        let next = last.map(|last| BASE64_URL_SAFE_NO_PAD.encode(name(last)));
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_to_the_next_page_and_the_last_page_has_none() {
        let asked = PageAsked { limit: Some(2), cursor: None };
        let limit = asked.limit().unwrap();
        let page = Page::new(vec![1, 2, 3], limit, ToString::to_string);
        assert_eq!(page.items, [1, 2]);
        let next = PageAsked { cursor: page.next, ..asked };
        assert_eq!(next.after_number().unwrap(), Some(2));
        assert_eq!(Page::new(vec![1, 2], limit, ToString::to_string).next, None);
        let wrong = PageAsked { cursor: Some("???".to_owned()), limit: Some(0) };
        assert!(wrong.after_number().is_err() && wrong.limit().is_err());
    }
}
