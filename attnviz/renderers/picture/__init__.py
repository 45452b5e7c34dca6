"""Views as pictures: where everything stands, and how it is drawn."""
