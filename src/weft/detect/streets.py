"""Words that streets are made of, in the languages of Europe and the Americas."""

from weft.detect.tables import table

ROADS = table(
    """
street streets st str road rd avenue ave av boulevard blvd lane ln drive dr court ct courts
square squares sq terrace ter place pl way close crescent cres gardens grove mews hill highway
hwy parkway pkwy circle cir trail trl row walk quay alley plaza expressway turnpike esplanade
parade rise wharf bypass loop pass extensions marg nagar
"""
)
"""What follows the name of a street where the number stands first."""

RARE_ROADS = table(
    """
alleyway anchorage annex arcade bayou beach bend bluff bluffs bottom branch bridge brook brooks
burg burgs camp canyon cape causeway center centers chowk circles cliff cliffs club common commons
corner corners course cove coves creek crest crossing crossroad curve dale dam divide drives
estate estates extension fall falls ferry field fields flat flats ford fords forest forge forges
fork forks fort freeway garden gateway ganj glen glens green greens groves harbor harbors harbour
haven heights hills hollow inlet island islands isle junction junctions key keys knoll knolls lake
lakes landing light lights loaf lock locks lodge mall manor manors meadow meadows mill mills
mission motorway mount mountain mountains neck orchard oval overpass park parks parkways passage
path pike pine pines plain plains plazas point points port ports prairie radial ramp ranch rapid
rapids rest ridge ridges river road roads route rue run sector shoal shoals shore shores skyway
spring springs spur spurs station stravenue stream summit throughway trace track trafficway
tunnel underpass union unions valley valleys via viaduct view views village villages ville vista
walks wall ways well wells
"""
)
"""What may end a street too, after the number of a house, but is more often something else."""

LEADERS = table(
    """
rue avenue av boulevard bd chemin impasse place quai allée via viale corso piazza vicolo strada
largo borgo contrada calle avda avenida paseo plaza camino carrera carretera rua travessa praça
estrada alameda rúa ulica ul aleja al náměstí ulice třída trg cesta calea bulevardul odos
strasse straße λεωφόρος οδός jalan pasaje calzada peatonal callejón privada circuito ronda
urbanización glorieta cuesta rampa viaducto prolongación drumul splaiul aleea intrarea
șoseaua strand estrada
"""
)
"""What stands in front of the name of a street."""

LOWER_LEADERS = table(
    """
rue avenue boulevard chemin impasse quai allée ulica ul aleja calle avenida paseo rua travessa
viale piazza strada corso vicolo
"""
)
"""Those that are written small, and mean nothing else in front of a capital letter."""

FOLLOWERS = table(
    """
utca u út útja útca tér tere körút krt rkp köz sor strasse straße platz weg allee gasse street
road rd terrasse vej väg tie katu gade gata gate str kapu ulica cesta trg tänav iela gatvė sokak
caddesi cad
"""
)
"""What follows the name of a street where the number stands last."""

ENDINGS = (
    "straße", "strasse", "str", "gasse", "weg", "allee", "platz", "damm", "ufer", "steig",
    "markt", "brücke", "gade",
    "vej", "vænget", "allé", "stræde", "gatan", "vägen", "gränd", "backe", "gata", "veg",
    "vegen", "veien", "vei", "gaten",
    "bakken", "svingen", "stien", "vollen", "terrasse", "katu", "ntie", "stie", "kuja", "polku",
    "raitti", "kaari",
    "straat", "laan", "plein", "kade", "gracht", "dijk", "steenweg", "hove", "braut", "stræti",
    "vegur", "götu", "gatu",
    "hagi", "rodda", "steeg", "singel", "dreef", "baan", "torget", "stranda", "chaussee", "graben",
    "-ring", "promenade", "utca", "körút", "tänav", "puiestee", "iela",
)  # fmt: skip
"""How a street's name ends where it is one word."""

LINKS = table(
    """
de del della dei di da do dos das du des la le les el los las san santa st saint sankt van von
der den zum zur am an al en
"""
)

UNITS = (
    "apt|apartment|suite|ste|unit|flat|floor|room|dept|app|appartement|wohnung|piso|lgh|box"
    "|interior|int|edif|edificio|depto|puerta|planta|piano|building|bldg|level|studio"
)

COUNTRIES = table(
    """
afghanistan albania algeria argentina armenia australia austria azerbaijan bangladesh belarus
belgium bolivia brazil bulgaria cambodia canada chile china colombia croatia cyprus czechia
denmark ecuador egypt england estonia ethiopia finland france georgia germany ghana greece
greenland hungary iceland india indonesia iran iraq ireland israel italy japan jordan kazakhstan
kenya korea kuwait latvia lebanon lithuania luxembourg malaysia malta mexico moldova morocco
nepal netherlands nigeria norway pakistan peru philippines poland portugal qatar romania russia
scotland serbia singapore slovakia slovenia spain sweden switzerland syria taiwan thailand
tunisia turkey ukraine uruguay usa venezuela vietnam wales yemen zambia greenlander zealand
kingdom states africa republic
"""
)

STATES = table(
    """
AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY
NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC PR GU VI AA AE AP MP AS
"""
)
