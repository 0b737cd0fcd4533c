//! From the API's objects to interned ones.
