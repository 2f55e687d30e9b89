"""What becomes of finished work: judged, decided in one row, carried out."""
