"""What a file is: its schema, its settings, its candidate tables; creating and opening it."""
