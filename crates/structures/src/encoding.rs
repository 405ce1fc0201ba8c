//! The encoding of Rust values: `postcard`, a compact encoding with a written specification.

use cedrat_txn::{Result, SmallBytes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StructureError;

/// Encodes `value`; `what` describes it in the error.
#[inline]
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T, what: &'static str) -> Result<SmallBytes> {
    postcard::serialize_with_flavor(value, SmallBytes::new())
        .map_err(|error| StructureError::Encoding { what, why: error.to_string() }.into())
}

/// Decodes a value from exactly these bytes.
#[inline]
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<T> {
    let failed = |why: String| StructureError::Encoding { what, why }.into();
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(failed(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// As [`decode`], for a value in a field that may be longer than it.
pub(crate) fn decode_padded<T: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, _)) => Ok(value),
        Err(error) => Err(StructureError::Encoding { what, why: error.to_string() }.into()),
    }
}
