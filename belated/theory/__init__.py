"""The theorems: bounds as functions, which of them covers a case, and what measurements say of them."""
