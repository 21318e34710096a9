"""Words that tell a name from another capitalised word; written by hand, not complete."""

from weft.detect.found import table

TITLES = table(
    """
mr mrs ms miss mx dr prof professor sir madam madame mme mlle monsieur herr frau señor señora
senor senora sr sra signor signora sig dott don doña lady lord rev reverend fr father sister
brother capt captain col colonel sgt sergeant lt lieutenant gen general judge justice hon
president senator governor mayor dame rabbi imam sheikh
"""
)

PARTICLES = table(
    """
de del della di da dos das do du la le van von der den ter ten zu zur vom bin ibn al el af av y
e st
"""
)

SURNAMES = table(
    """
adamczyk adams adeyemi aguilar aguirre ahmed alexander ali allen almeida alvarez anderson
andrews araujo armstrong arnold arslan aslan atkinson aubert aydin azevedo babic bailey baker
bakken bakker balogh banerjee barbieri barbosa barnes barnett barros bauer becker bell bellini
bennett benoit berg bergstrom bernard bianchi black blanc blanchard bonnet borg bos bosch
bouchard bowers boyd boyer bradley braun brennan brooks brouwer brown brunet bruno bryant burns
butler byrne campbell cardoso carlson caron carpenter carr carroll carter caruso carvalho
castellanos castillo castro cavalcanti cazares celik cerny cervantes cetin chang chapman
chatterjee chaudhry chavez chen chevalier choi chung cisneros claes clark clarke coelho cohen
cole coleman collins colombo conte conti contreras cook cooper coppola costa cox crawford cruz
cunningham da dabrowski dahl daniels davies davis dawson debacker dejong dekker delgado demir
desai desjardins desmet devries diaz dimitrov dixon djordjevic dogan donovan doyle dubois dudek
dumitru duncan dunn dupont durand dvorak edwards eide ellis engstrom eriksson escobar esposito
evans farkas faure ferguson fernandes fernandez ferrari ferreira ferri figueroa fischer fisher
fitzgerald flores fodor fonseca fontana ford forsberg foster fournier fox francois fraser
freeman freitas fuchs fuentes gagnon gaillard gallagher gallegos galli garcia gardner garnier
gauthier gentile georgiev gibson giordano girard giraud gomes gomez gonzales gonzalez goossens
grabowski graham gray greco green greene griffin gruber guerin guerrero gupta gustafsson
gutierrez guzman haas hagen hajek hall hamilton hansen hanson harper harrington harris harrison
hart hartmann harvey hashimoto haugen hayashi hayes heikkinen heinonen henderson hendriks henry
hernandez herrera hicks hill hodges hoffman hoffmann holloway holm holmes hopkins horn horvat
horvath horvatic howard huang huber hudson hughes hunt hunter hussain huynh ibarra ikeda ilic
inoue ionescu iqbal ivanov ivanova iyer jablonski jackson jacobs james jansen janssen jansson
jenkins jennings jensen jimenez johansen johansson johnson johnston jones jonsson jordan joseph
joshi jovanovic juhasz juric kaczmarek kaiser kaminski kang kapoor karlsson kaya kelley kelly
kennedy khan kilic kim kimura king klein knezevic knight kobayashi koc koch korhonen koskinen
kovac kovacevic kovacic kovacs kowal kowalczyk kowalski kozak kramer kraus krause krejci krol
krueger kucera kumar laine lakatos lambert lang lange larsen larsson lawrence leblanc leclerc
lee lefebvre lefevre legrand lehmann lehtonen lemoine leone leroy lewandowski lewis li lin lind
lindberg lindgren lindqvist lindstrom liu lombardi lombardo long lopes lopez lund ma macdonald
machado mackenzie maes maier makinen maldonado malik mancini marchetti mariani maric marino
markovic marques marrero marshall martin martinelli martinez martini mason matei matsumoto
matthews mayer mazur mccarthy mccormick mccoy mccullough mcdonald mcdowell mckenzie mckinney
mclaughlin medina mehta mendes mendez mendoza mensah mercier mertens meszaros meyer middleton
miller mills mitchell molnar monteiro montoya moore morales moreau moreira moreno moretti morgan
mori morris morrison mueller mukherjee mulder munteanu murphy murray myers müller nagy nair
nakamura nascimento navarro nelson nemeth neumann newman nguyen nielsen niemi nieminen nikolic
nikolov nilsson novak novotny nowak nowicki nunez nystrom obrien oconnor okafor okonkwo olah
oliveira olsen olsson oneill ortega ortiz osborne osei owens ozdemir ozturk pacheco palmer papp
park parker patel patterson pavlovic pawlowski payne pearson peixoto pelletier pereira perez
perkins perry persson peters petersen peterson petrov petrova petrovic pettersson pfeiffer pham
phillips picard pierce pinto polat popa popescu popov porter powell price prochazka quintero
ramalho ramirez ramos rantanen reddy reed reid renaud reyes reynolds ribeiro ricci rice richards
richardson richter riley rinaldi rivera rizzo roberts robertson robinson rodrigues rodriguez
rogers rojas rolland romano romero rose ross rossi roth rousseau roussel roux ruiz russell russo
rusu ryan saarinen sahin salazar salinas salo salonen sanchez sandberg sanders santana santoro
santos sasaki sato scharf schmid schmidt schmitt schmitz schneider scholz schreiber schroeder
schröder schubert schultz schulz schulze schuster schwartz schwarz scott serra sharma shaw
shimizu silva simmons simon simpson singh sjoberg smit smith snyder solberg soto souza spencer
stankovic stein stephens stevens stewart stojanovic stone sullivan sutherland suzuki svensson
svoboda szabo szucs szymanski takacs takahashi tanaka tang taylor teixeira thomas thompson
thomsen thornton torres toth tran tremblay tucker turner valenzuela vandenberg vanderberg varga
vargas vasquez vega velasco verma vesely vieira villarreal virtanen visser vitale vogel vos
wagner walker wallace wallin wang ward warren washington watanabe watson weaver webb weber weiss
wells west wheeler whitaker white wieczorek willems williams williamson willis wilson winkler
winter wisniewski wojciechowski wojcik wolf wolff wong wood woods wouters wright wu yamada
yamamoto yang yildirim yildiz yilmaz yoshida young zajac zamora zhang zhao zielinski zimmermann
"""
)

SURNAME_WORDS = table(
    """
bell black blanc brown butler carpenter carter cole cook cooper cox cruz da fisher ford foster
fox freeman gardner gray green hall hamilton hart hill horn hudson hunt hunter jackson jordan
joseph kim king knight lang lange lee li lin long ma mason mills nelson palmer park pierce
porter price reed rice rose santos scott stein stone taylor thomas tucker turner walker ward
warren washington weaver wells west wheeler white winter wolf wood woods wu yang young bruno
alexander henry james simon martin marino victoria berg bos bosch horvat kang tang chang chen
ali horn roman peters stephens
ahmed aslan aydin benoit caruso conte dahl desai eide ferri fontana francois fraser galli
gentile hagen holm kaya kowal leone lind maes malik matei mori nair pham popa renaud rolland
salo serra vos
"""
)
"""Surnames that are words, places or given names as well; alone they say nothing."""

SURE_ENDS = (
    "sson", "nsen", "dsen", "lsen", "rsen", "ksen", "tsen", "ssen", "ová", "ić", "ovic", "evic",
    "ovich", "evich", "dóttir",
    "dottir", "owski", "ewski", "owska", "ewska", "ński", "ńska", "czyk", "czak", "marek",
    "wicz", "enko", "chuk", "kova",
    "nova", "lova", "rova", "skaya", "skaia", "escu", "eanu", "shvili", "idze", "oğlu", "oglu",
    "akis", "opoulos", "poulou",
    "iadis", "ainen", "einen", "onen", "anen", "änen", "önen", "sdatter", "quist", "qvist",
    "ström", "ández", "íguez",
    "ález", "énez", "andez", "iguez", "squez", "alez", "szky", "ský", "ayev", "iyev", "adiev",
    "kov", "nov", "mov", "lov",
    "rov", "eyev", "ffy", "nsson", "lund", "lundh", "gren", "gaard", "gård", "halmi", "hazi",
    "házi", "ényi",
)  # fmt: skip
"""How a surname ends, where hardly any other word does."""

SURNAME_ENDS = (
    *SURE_ENDS, "son", "sen", "yan", "idis", "inen", "stad", "berg", "mann", "meier", "mayer",
    "bauer", "huber", "stein", "feld",
    "dorf", "wald", "hofer", "inger", "elli", "etti", "ucci", "acci", "otti", "oni", "ini",
    "eau", "ault", "oux", "stra", "sma",
    "ema", "kamp", "veld", "moto", "yama", "mura", "saki", "zaki", "hara", "guchi", "sky", "thy",
    "esi", "ev", "ov", "eva", "ova",
    "shin", "kin", "tsev", "ski", "ska", "uez", "ides", "ález", "ares", "illo", "eira", "inho",
    "nyi", "ay", "ec", "ek", "ák", "ký",
)  # fmt: skip
"""How a surname ends; other words do as well."""

PERSON_VERBS = (
    "lives", "lived", "shouted", "whispered", "smiled", "laughed", "replied", "was born",
    "spent a", "had given", "has given",
    "gave", "is from", "works for", "works at", "will be talking", "is very", "is a very",
    "just has to", "explained", "sang",
)  # fmt: skip
"""What people do, and few other things."""

NOT_NAMES = table(
    """
the a an i my your his her our their its this that these those it he she we they you who what
when where why how which please hello hi hey dear thanks thank yes no ok okay can could would
should will shall may might must do does did is are was were be been being am have has had if
then else and or but not nor so for from to in on at by of with about as into after before since
until during under over between unlike like maybe perhaps also just only very all any some each
every both either neither more most other another such own same new old first last next one two
three four five six seven eight nine ten name date time phone email address website mobile fax
desk office home work user bot agent customer client account card credit bank order number code
zip box suite apt apartment unit floor street road avenue lane drive court square place park
bridge north south east west northern southern eastern western central upper lower great big
little monday tuesday wednesday thursday friday saturday sunday january february march april
june july august september october november december inc llc ltd corp corporation company group
holdings bank university college school institute hospital department ministry council committee
association foundation society club orchestra museum church hotel restaurant airport station
county city state country united states kingdom republic king queen prince princess act title
section chapter article part figure table page line error warning note file data test class
function method object value type list string json http https api url sql select insert update
delete create true false null none return import def main run add remove set get put use using
used see need want let make made take here there now today tomorrow yesterday christmas easter
english french german spanish italian russian chinese japanese american british european polish
norwegian swedish danish finnish dutch greek turkish arabic hebrew hungarian czech croatian
icelandic personal info billing shipping regards sincerely cheers best kind yours subject re fw
fwd cc bcc attn ps directed produced written mission statement wisdom discipline god lord jesus
internet google microsoft apple amazon facebook twitter linkedin python java javascript linux
windows android github docker kubernetes postgres redis react airlines flight gold silver hall
island islands lake mountain river valley beach hill hills woods day night morning evening week
month year kenyan libyan wow yeah yep nope yay oh ooh ah aha aw aww ha haha hmm ouch oof ugh whoa
woah woohoo hooray bye goodbye welcome congrats congratulations definitely absolutely totally
exactly indeed certainly obviously actually honestly seriously apparently unfortunately sadly
luckily fortunately hopefully basically sure cool awesome great good nice amazing fantastic
wonderful perfect lovely sorry right well agreed agree gotcha true remember go come keep stop
wait look listen enjoy love happy glad excited yum bummer anyway however therefore meanwhile
moreover finally again still even never always once twice sometimes usually often really too
world default team manager support sales marketing engineering hiring director service
let's it's that's what's here's there's who's i'm i've i'll i'd don't can't won't didn't
"""
)

ORGANISATION = table(
    """
inc llc ltd corp corporation company co group holdings bank university college school institute
hospital orchestra foundation society partners associates technologies technology systems
software solutions services capital insurance investments consulting industries international
labs media networks airlines motors foods energy health financial gmbh ag sa srl bv nv oy ab as
plc street st road rd avenue ave lane drive court square place park bridge airport station
county city island lake river valley beach hill prize award festival stadium center centre
theatre museum islands isle ville towers
"""
)
