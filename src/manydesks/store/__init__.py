"""The only room that speaks SQL to office.db."""
