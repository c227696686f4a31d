"""Pure functions on images: what holds for any two pictures, whoever made them."""
