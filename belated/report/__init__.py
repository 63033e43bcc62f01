"""What people look at: pages, figures, tables and the numbers in them; for studies, audit and replay."""
