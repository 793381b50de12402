//! The driver against scripted controllers.
