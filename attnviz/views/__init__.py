"""Views: what results say and show, for every renderer."""
