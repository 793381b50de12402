//! Real time: a bench on pseudo-terminals and TCP.
