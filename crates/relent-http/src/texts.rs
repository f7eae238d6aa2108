//! The values of a header.

use http::HeaderMap;
use http::header::AsHeaderName;

/// All values of a header that are text, without the space around them.
pub(crate) fn texts<N: AsHeaderName>(
    headers: &HeaderMap,
    name: N,
) -> impl Iterator<Item = &str> + use<'_, N> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::trim)
}
