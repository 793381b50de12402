"""What all the clients here share: a bench of their own, and a client that uses no library."""
